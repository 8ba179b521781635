#include "runtime/train/model.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace ddp::rt::train {
namespace {

constexpr InputShape kDigits{.rows = 28, .columns = 28, .classes = 10};

TEST(Model, GivesOneScoreAClassAndAGradientForEachParameter) {
  for (const char* name : {"convnet", "mlp"}) {
    SCOPED_TRACE(name);
    const auto model = MakeModel({.name = name, .channels = 2, .hidden = 8}, kDigits, 1);
    const at::Tensor scores = model->Forward(at::ones({3, 1, 28, 28}));
    EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{3, 10}));
    at::cross_entropy_loss(scores, at::zeros({3}, at::kLong)).backward();
    for (const NamedTensor& parameter : model->parameters()) {
      EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    }
  }
}

TEST(Model, TheSeedDecidesTheParameters) {
  const auto first = [](uint64_t seed) {
    return MakeModel({.name = "mlp", .hidden = 8}, kDigits, seed)->parameters()[0].tensor.detach();
  };
  EXPECT_TRUE(first(1).equal(first(1)));
  EXPECT_FALSE(first(1).equal(first(2)));
  EXPECT_LE(first(1).abs().max().item<double>(), 1 / 28.0);
}

TEST(Model, SaysWhenImagesAreTooSmall) {
  EXPECT_THROW(MakeModel({.name = "convnet"}, {.rows = 3, .columns = 28, .classes = 10}, 1), Error);
}

}  // namespace
}  // namespace ddp::rt::train
