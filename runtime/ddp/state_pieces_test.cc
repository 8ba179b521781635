#include "runtime/ddp/state_pieces.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace ddp::rt {
namespace {

TEST(StatePieces, NamesComeBackAsTheyWere) {
  for (const PieceName& piece :
       {PieceName{"average.fc.weight", 128, 512}, PieceName{"step", 0, -1}, PieceName{"a", 0, 0}}) {
    EXPECT_EQ(ParsePieceName(FormatPieceName(piece)), piece);
  }
  EXPECT_EQ(FormatPieceName({"average.w", 3, 7}), "average.w[3:7]");
  for (const char* name : {"layers[0]", "w[3:]", "w[:3]", "w[7:3]", "w[-1:3]", "w[1:2"}) {
    EXPECT_EQ(ParsePieceName(name), (PieceName{name, 0, -1}));
  }
}

at::Tensor Numbers(std::int64_t begin, std::int64_t end) {
  return at::arange(begin, end, at::kFloat);
}

TEST(StatePieces, AnySetOfPiecesFillsAnyOther) {
  const std::vector<NamedTensor> three = {
      {"w[4:8]", Numbers(4, 8)}, {"w[0:4]", Numbers(0, 4)}, {"w[8:12]", Numbers(8, 12)}};
  const at::Tensor first = at::zeros({6});
  const at::Tensor second = at::zeros({6});
  CopyPieces(three, {{"w[0:6]", first}, {"w[6:12]", second}}, "the checkpoint");
  EXPECT_TRUE(first.equal(Numbers(0, 6)));
  EXPECT_TRUE(second.equal(Numbers(6, 12)));
  const at::Tensor whole = at::zeros({3, 4});
  CopyPieces(three, {{"w", whole}}, "the checkpoint");
  EXPECT_TRUE(whole.equal(Numbers(0, 12).view({3, 4})));
  const at::Tensor middle = at::zeros({3});
  CopyPieces({{"w", Numbers(0, 12).view({3, 4})}}, {{"w[5:8]", middle}}, "the checkpoint");
  EXPECT_TRUE(middle.equal(Numbers(5, 8)));
}

TEST(StatePieces, WhatIsMissingIsNamed) {
  const auto problem = [](const std::vector<NamedTensor>& from) {
    try {
      CopyPieces(from, {{"w", at::zeros({12})}}, "step-7");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(problem({{"v", Numbers(0, 12)}}), "step-7 has no tensor 'w', which this run needs");
  EXPECT_EQ(problem({{"w[0:4]", Numbers(0, 4)}, {"w[8:12]", Numbers(8, 12)}}),
            "step-7 has 'w' only up to element 4 of 12: is a shard missing?");
  EXPECT_EQ(problem({{"w", Numbers(0, 12).view({3, 4})}}),
            "'w' has the shape [3, 4] in step-7, and [12] here");
  EXPECT_EQ(problem({{"w[0:5]", Numbers(0, 4)}}), "step-7: 'w[0:5]' has 4 elements");
}

}  // namespace
}  // namespace ddp::rt
