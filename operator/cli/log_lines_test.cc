#include "operator/cli/log_lines.h"

#include <gtest/gtest.h>

namespace ddp::cli {
namespace {

constexpr const char* kFirst = "2026-01-02T03:04:05.000000001Z";
constexpr const char* kSecond = "2026-01-02T03:04:05.000000002Z";
constexpr const char* kThird = "2026-01-02T03:04:06.000000000Z";

std::string Timed(const char* time, const std::string& text) {
  return std::string(time) + " " + text + "\n";
}

TEST(LogLines, PutThePrefixInFrontOfEachLineHoweverItArrives) {
  std::string shown;
  LogLines lines("[3] ", false, false, [&shown](std::string_view line) { shown += line; });
  for (const char* piece : {"on", "e\nt", "wo\n\nthr", "ee"}) {
    lines.Feed(piece);
  }
  lines.End();
  EXPECT_EQ(shown, "[3] one\n[3] two\n[3] \n[3] three\n");
}

TEST(LogLines, AfterABreakNothingComesTwiceAndNothingIsMissing) {
  std::string shown;
  LogLines lines("", true, false, [&shown](std::string_view line) { shown += line; });
  lines.Feed(Timed(kFirst, "one") + Timed(kSecond, "two") + std::string(kThird) + " thr");
  EXPECT_EQ(lines.last_time(), kSecond);
  lines.Break();
  lines.Feed(Timed(kFirst, "one") + Timed(kSecond, "two") + Timed(kThird, "three"));
  lines.End();
  EXPECT_EQ(shown, "one\ntwo\nthree\n");
}

TEST(LogLines, TimesAreShownIfWanted) {
  std::string shown;
  LogLines lines("[0] ", true, true, [&shown](std::string_view line) { shown += line; });
  lines.Feed(Timed(kFirst, "") + Timed(kThird, "x y"));
  EXPECT_EQ(shown, "[0] " + std::string(kFirst) + " \n[0] " + kThird + " x y\n");
}

TEST(LogLines, ALineWithoutEndComesInPieces) {
  size_t bytes = 0;
  size_t longest = 0;
  LogLines lines("", true, false, [&](std::string_view line) {
    bytes += line.size();
    longest = std::max(longest, line.size());
  });
  lines.Feed(std::string(kFirst) + " ");
  for (int i = 0; i < 100; ++i) {
    lines.Feed(std::string(10'000, 'x'));
  }
  lines.End();
  EXPECT_GE(bytes, 1'000'000U);
  EXPECT_LT(longest, 300'000U);
  EXPECT_EQ(lines.last_time(), kFirst);
}

}  // namespace
}  // namespace ddp::cli
