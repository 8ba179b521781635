#include "runtime/train/optimizer.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ddp::rt::train {
namespace {

constexpr double kRate = 0.1;
constexpr double kDecay = 0.01;

// A parameter with the value 1 and the gradient of f(x) = x²: 2x.
class Optimized {
 public:
  explicit Optimized(const OptimizerConfig& config)
      : parameter_(at::full({3}, 1.0, at::kFloat)),
        optimizer_(MakeOptimizer(config, {{"x", parameter_.set_requires_grad(true)}})) {}

  double Step() {
    parameter_.mutable_grad() = parameter_.detach().mul(2);
    optimizer_->Step(kRate);
    return parameter_.detach()[0].item<double>();
  }
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  at::Tensor parameter_;
  std::unique_ptr<Optimizer> optimizer_;
};

TEST(Sgd, IsTheTextbook) {
  Optimized optimized({.name = "sgd", .momentum = 0.9, .weight_decay = kDecay});
  double x = 1;
  double velocity = 0;
  for (int step = 0; step < 20; ++step) {
    velocity = 0.9 * velocity + 2 * x + kDecay * x;
    x -= kRate * velocity;
    EXPECT_NEAR(optimized.Step(), x, 1e-5) << step;
  }
  ASSERT_EQ(optimized.optimizer().state().size(), 1U);
  EXPECT_EQ(optimized.optimizer().state()[0].name, "momentum.x");
}

TEST(Sgd, WithoutMomentumHasNoState) {
  Optimized optimized({.name = "sgd", .momentum = 0, .weight_decay = 0});
  EXPECT_NEAR(optimized.Step(), 0.8, 1e-6);
  EXPECT_NEAR(optimized.Step(), 0.64, 1e-6);
  EXPECT_TRUE(optimized.optimizer().state().empty());
}

TEST(AdamW, IsTheTextbook) {
  Optimized optimized({.name = "adamw", .beta1 = 0.9, .beta2 = 0.999, .weight_decay = kDecay});
  double x = 1;
  double average = 0;
  double square = 0;
  for (int step = 1; step <= 20; ++step) {
    const double gradient = 2 * x;
    x -= kRate * kDecay * x;
    average = 0.9 * average + 0.1 * gradient;
    square = 0.999 * square + 0.001 * gradient * gradient;
    x -= kRate * (average / (1 - std::pow(0.9, step))) /
         (std::sqrt(square / (1 - std::pow(0.999, step))) + 1e-8);
    EXPECT_NEAR(optimized.Step(), x, 1e-5) << step;
  }
  EXPECT_EQ(optimized.optimizer().state().size(), 3U);
}

}  // namespace
}  // namespace ddp::rt::train
