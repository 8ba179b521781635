#include "runtime/launch/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ddp::rt::launch {
namespace {

using testing::ElementsAre;

TEST(Lines, AreWholeHoweverTheyArrive) {
  Lines lines;
  std::vector<std::string> seen;
  const auto take = [&](std::string_view line) { seen.emplace_back(line); };
  lines.Feed("one\ntw", take);
  lines.Feed("o", take);
  EXPECT_THAT(seen, ElementsAre("one"));
  lines.Feed("\n\nthree", take);
  EXPECT_THAT(seen, ElementsAre("one", "two", ""));
  lines.Finish(take);
  lines.Finish(take);
  EXPECT_THAT(seen, ElementsAre("one", "two", "", "three"));
}

TEST(Lines, OneThatNeverEndsIsCut) {
  Lines lines;
  std::vector<size_t> lengths;
  const auto take = [&](std::string_view line) { lengths.push_back(line.size()); };
  lines.Feed(std::string(Lines::kLongest * 2 + 5, 'x'), take);
  lines.Feed("\n", take);
  EXPECT_THAT(lengths, ElementsAre(Lines::kLongest, Lines::kLongest, 5));
}

TEST(Lines, OnlyTheLastAreKept) {
  Lines lines;
  for (int i = 0; i < 100; ++i) {
    lines.Feed(std::to_string(i) + "\n", [](std::string_view) {});
  }
  EXPECT_EQ(lines.last().size(), Lines::kKept);
  EXPECT_EQ(lines.last().front(), "80");
  EXPECT_EQ(lines.last().back(), "99");
}

}  // namespace
}  // namespace ddp::rt::launch
