#include "runtime/checkpoint/pieces.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace ddp::rt::checkpoint {
namespace {

const std::vector<float> kNumbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

TensorView Part(const std::string& name, size_t begin, size_t end) {
  return {.name = name,
          .type = DType::kF32,
          .shape = {static_cast<int64_t>(end - begin)},
          .elements = std::as_bytes(std::span(kNumbers).subspan(begin, end - begin))};
}

TensorView Matrix(const std::string& name) {
  TensorView view = Part(name, 0, 6);
  view.shape = {2, 3};
  return view;
}

TEST(Pieces, NamesAreRead) {
  const auto piece = ParsePieceName("average.a[0].weight[12:345]");
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->whole, "average.a[0].weight");
  EXPECT_EQ(piece->begin, 12);
  EXPECT_EQ(piece->end, 345);
  for (const char* name : {"", "step", "a[1:2", "a[1]", "a[:2]", "a[2:1]", "a[-1:2]", "[1:2]",
                           "a[1:2]x", "a[1:99999999999999999999]", "a]1:2["}) {
    EXPECT_FALSE(ParsePieceName(name)) << name;
  }
}

TEST(Pieces, AreJoinedInOrderWithTheParametersShape) {
  const Joined joined = JoinPieces(
      {Part("average.w[4:6]", 4, 6), Part("step", 9, 10), Part("average.w[0:4]", 0, 4),
       Part("step", 9, 10), Part("average.other[0:2]", 0, 2), Part("average.other[2:2]", 0, 0)},
      {Matrix("w")});
  ASSERT_EQ(joined.tensors.size(), 3U);
  EXPECT_EQ(joined.tensors[0].name, "step");
  EXPECT_EQ(joined.tensors[1].name, "average.other");
  EXPECT_EQ(joined.tensors[1].shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(joined.tensors[2].name, "average.w");
  EXPECT_EQ(joined.tensors[2].shape, (std::vector<int64_t>{2, 3}));
  const auto wanted = Matrix("w").elements;
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), joined.tensors[2].elements.begin()));
}

TEST(Pieces, WhatDoesNotFitIsRefused) {
  EXPECT_THROW(JoinPieces({Part("a[0:2]", 0, 2), Part("a[3:4]", 3, 4)}, {}), Error) << "a gap";
  EXPECT_THROW(JoinPieces({Part("a[0:2]", 0, 2), Part("a[1:3]", 1, 3)}, {}), Error) << "overlap";
  EXPECT_THROW(JoinPieces({Part("a[1:3]", 1, 3)}, {}), Error) << "no beginning";
  EXPECT_THROW(JoinPieces({Part("a[0:5]", 0, 2)}, {}), Error) << "too short";
  EXPECT_THROW(JoinPieces({Part("step", 0, 1), Part("step", 1, 2)}, {}), Error) << "differ";
}

}  // namespace
}  // namespace ddp::rt::checkpoint
