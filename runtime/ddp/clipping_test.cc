#include "runtime/ddp/clipping.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/ddp/replicas_test.h"

namespace ddp::rt {
namespace {

using comm::TransportKind;

double NormOf(const TinyModel& model) {
  double squares = 0;
  for (const NamedTensor& p : model.parameters()) {
    squares += p.tensor.grad().to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(squares);
}

class ClippingTest : public ::testing::TestWithParam<bool> {
 protected:
  static DataParallelOptions Options() {
    DataParallelOptions options = SmallBuckets();
    options.scatter_gradients = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Gradients, ClippingTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "scattered" : "whole"; });

TEST_P(ClippingTest, TheNormIsThatOfTheMeanGradient) {
  const at::Tensor batch = Inputs(8, 1);
  const TinyModel alone(7);
  alone.Loss(batch).backward();
  RunReplicas(2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store& s) {
    const TinyModel model(7);
    DataParallel replicas(model.parameters(), {}, group, s, Options());
    replicas.ZeroGrad();
    model.Loss(Share(batch, rank, 2)).backward();
    EXPECT_NEAR(GradientNorm(replicas).item<double>(), NormOf(alone), 1e-5);
  });
}

TEST_P(ClippingTest, GradientsAboveTheLimitAreScaledToIt) {
  const at::Tensor batch = Inputs(8, 1);
  RunReplicas(2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store& s) {
    const TinyModel model(7);
    DataParallel replicas(model.parameters(), {}, group, s, Options());
    const auto clipped = [&](double limit) {
      replicas.ZeroGrad();
      model.Loss(Share(batch, rank, 2)).backward();
      const double before = ClipGradientNorm(replicas, limit).item<double>();
      return std::pair(before, GradientNorm(replicas).item<double>());
    };
    const auto [before, after] = clipped(0.5);
    EXPECT_GT(before, 0.5);
    EXPECT_NEAR(after, 0.5, 1e-5);
    const auto [same_before, same_after] = clipped(1000);
    EXPECT_EQ(same_before, same_after);
  });
}

}  // namespace
}  // namespace ddp::rt
