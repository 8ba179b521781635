#include "runtime/train/model.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace ddp::rt::train {
namespace {

// Threads only get in each other's way with tensors as small as these.
const bool kOneThread = (at::set_num_threads(1), true);

constexpr data::DataShape kDigits{.channels = 1, .rows = 28, .columns = 28, .classes = 10};

TEST(Model, GivesOneScoreAClassAndAGradientForEachParameter) {
  for (const char* name : {"convnet", "mlp", "resnet18"}) {
    SCOPED_TRACE(name);
    const auto model = MakeModel({.name = name, .channels = 2, .hidden = 8}, kDigits, 1);
    const at::Tensor scores = model->Forward(at::ones({3, 1, 28, 28}), true);
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
  EXPECT_THROW(
      MakeModel({.name = "convnet"}, {.channels = 1, .rows = 3, .columns = 28, .classes = 10}, 1),
      Error);
}

int64_t Elements(const Model& model) {
  int64_t sum = 0;
  for (const NamedTensor& parameter : model.parameters()) {
    sum += parameter.tensor.numel();
  }
  return sum;
}

TEST(Model, HasAsManyParametersAsItShould) {
  const data::DataShape cifar{.channels = 3, .rows = 32, .columns = 32, .classes = 10};
  // torchvision's ResNet-18 with the first convolution of 3 × 3.
  EXPECT_EQ(Elements(*MakeModel({.name = "resnet18"}, cifar, 1)), 11'173'962);
  EXPECT_EQ(Elements(*MakeModel({.name = "mlp", .hidden = 1024, .hidden_layers = 2}, kDigits, 1)),
            1'863'690);
}

TEST(Model, BatchNormLearnsItsStatisticsInTrainingOnly) {
  const auto model = MakeModel({.name = "resnet18"}, kDigits, 1);
  const at::Tensor images = at::ones({2, 1, 28, 28});
  const at::Tensor before = model->Forward(images, false).detach();
  EXPECT_TRUE(before.equal(model->Forward(images, false)));
  EXPECT_EQ(model->buffers().front().name, "bn1.running_mean");
  model->Forward(images, true);
  EXPECT_FALSE(before.equal(model->Forward(images, false)));
}

}  // namespace
}  // namespace ddp::rt::train
