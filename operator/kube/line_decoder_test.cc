#include "operator/kube/line_decoder.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ddp::kube {
namespace {

std::vector<std::string> Decode(LineDecoder& decoder, const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    EXPECT_TRUE(decoder.Feed(piece, [&](std::string_view line) { lines.emplace_back(line); }));
  }
  return lines;
}

TEST(LineDecoder, CutsLinesHoweverTheyArrive) {
  using Strings = std::vector<std::string>;
  struct Row {
    Strings pieces;
    Strings lines;
    size_t pending;
  };
  const Row rows[] = {
      {{"a\nb\n"}, {"a", "b"}, 0},
      {{"a", "b", "\n"}, {"ab"}, 0},
      {{"a\nb"}, {"a"}, 1},
      {{"", "\n\n", "a\r\n"}, {"a"}, 0},
      {{"a\r", "\nb\n"}, {"a", "b"}, 0},
      {{std::string("\0x\n", 3)}, {std::string("\0x", 2)}, 0},
  };
  for (const Row& row : rows) {
    LineDecoder decoder;
    EXPECT_EQ(Decode(decoder, row.pieces), row.lines);
    EXPECT_EQ(decoder.pending(), row.pending);
  }
}

TEST(LineDecoder, AnySplitGivesTheSameLines) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 200; ++i) {
      text += "ab\n\r"[random() % 4];
    }
    text += "\n";
    LineDecoder whole;
    const auto expected = Decode(whole, {text});
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = random() % 7;
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    LineDecoder split;
    ASSERT_EQ(Decode(split, pieces), expected);
  }
}

TEST(LineDecoder, RefusesALineOverItsCap) {
  LineDecoder decoder(4);
  const auto ignore = [](std::string_view) {};
  EXPECT_TRUE(decoder.Feed("1234\n12", ignore));
  EXPECT_TRUE(decoder.Feed("34", ignore));
  const auto refused = decoder.Feed("5", ignore);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kInvalid);
}

}  // namespace
}  // namespace ddp::kube
