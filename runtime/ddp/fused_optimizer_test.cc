#include "runtime/ddp/fused_optimizer.h"

#include <ATen/ops/sign.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/ddp/replicas_test.h"

namespace ddp::rt {
namespace {

using Kind = OptimizerOptions::Kind;

// AdamW as its paper has it, in double.
struct PlainAdamW {
  double average = 0;
  double square = 0;
  double Step(double parameter, double gradient, double rate, const OptimizerOptions& o, int step) {
    parameter *= 1 - rate * o.weight_decay;
    average = o.beta1 * average + (1 - o.beta1) * gradient;
    square = o.beta2 * square + (1 - o.beta2) * gradient * gradient;
    const double mean = average / (1 - std::pow(o.beta1, step));
    const double deviation = std::sqrt(square / (1 - std::pow(o.beta2, step)));
    return parameter - rate * mean / (deviation + o.epsilon);
  }
};

TEST(FusedOptimizer, AdamWIsThatOfThePaper) {
  const TinyModel model(1);
  const OptimizerOptions options{.weight_decay = 0.1};
  FusedOptimizer optimizer(options, model.parameters());
  PlainAdamW plain;
  auto expected = model.tensor(0)[2][3].item<double>();
  for (int step = 1; step <= 5; ++step) {
    for (const NamedTensor& p : model.parameters()) {
      p.tensor.mutable_grad().reset();
    }
    model.Loss(Inputs(4, 3)).backward();
    expected =
        plain.Step(expected, model.tensor(0).grad()[2][3].item<double>(), 0.01, options, step);
    optimizer.Step(0.01);
    EXPECT_NEAR(model.tensor(0)[2][3].item<double>(), expected, 1e-6);
  }
}

TEST(FusedOptimizer, DecayCanSpareVectors) {
  const TinyModel model(1);
  const TinyModel before(1);
  for (const NamedTensor& p : model.parameters()) {
    p.tensor.mutable_grad() = at::zeros_like(p.tensor);
  }
  FusedOptimizer optimizer({.kind = Kind::kSgd, .weight_decay = 0.5, .decay_matrices_only = true},
                           model.parameters());
  optimizer.Step(0.1);
  EXPECT_TRUE(at::equal(model.tensor(1), before.tensor(1)));
  EXPECT_TRUE(at::allclose(model.tensor(0), before.tensor(0) * 0.95));
}

TEST(FusedOptimizer, MissingGradientsAreLeftAlone) {
  const TinyModel model(1);
  const TinyModel before(1);
  model.tensor(0).mutable_grad() = at::ones_like(model.tensor(0));
  FusedOptimizer optimizer({.kind = Kind::kSgd, .weight_decay = 0, .momentum = 0.9},
                           model.parameters());
  optimizer.Step(0.1);
  EXPECT_TRUE(at::allclose(model.tensor(0), before.tensor(0) - 0.1));
  EXPECT_TRUE(at::equal(model.tensor(2), before.tensor(2)));
}

TEST(FusedOptimizer, GoesOnFromItsSavedState) {
  const TinyModel a(1);
  const TinyModel b(1);
  FusedOptimizer of_a({}, a.parameters());
  const auto step = [](const TinyModel& model, Optimizer& optimizer) {
    for (const NamedTensor& p : model.parameters()) {
      p.tensor.mutable_grad().reset();
    }
    model.Loss(Inputs(4, 3)).backward();
    optimizer.Step(0.01);
  };
  step(a, of_a);
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < a.parameters().size(); ++i) {
      b.tensor(i).copy_(a.tensor(i));
    }
  }
  FusedOptimizer of_b({}, b.parameters());
  of_b.LoadState(of_a.state(), "a");
  step(a, of_a);
  step(b, of_b);
  EXPECT_EQ(LargestDifference(a.parameters(), b.parameters()), 0);
}

}  // namespace
}  // namespace ddp::rt
