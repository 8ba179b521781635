#include "runtime/ddp/loss_scaler.h"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/base/error.h"
#include "runtime/ddp/autocast.h"
#include "runtime/ddp/clipping.h"
#include "runtime/ddp/fused_optimizer.h"
#include "runtime/ddp/replicas_test.h"

namespace ddp::rt {
namespace {

using comm::TransportKind;

constexpr float kInf = std::numeric_limits<float>::infinity();
const LossScalerOptions kQuick{.initial_scale = 1024, .growth_interval = 2};

TEST(LossScaler, ScalesGrowAndShrinkAsInPyTorch) {
  RunReplicas(1, TransportKind::kAuto, [](int, comm::ProcessGroup& group, store::Store& store) {
    const TinyModel model(1);
    DataParallel replicas(model.parameters(), {}, group, store, SmallBuckets());
    LossScaler scaler(kQuick, at::kCPU);
    const auto step = [&](bool overflow) {
      replicas.ZeroGrad();
      scaler.Scale(model.Loss(Inputs(4, 1))).backward();
      if (overflow) {
        model.tensor(1).grad()[3] = kInf;
      }
      scaler.Unscale(replicas);
      EXPECT_EQ(scaler.FoundInf(), overflow);
      scaler.Update();
      return scaler.scale();
    };
    EXPECT_EQ(step(false), 1024);
    EXPECT_EQ(step(false), 2048);  // the second good one in a row
    EXPECT_EQ(step(false), 2048);
    EXPECT_EQ(step(true), 1024);
    EXPECT_EQ(step(false), 1024);
    EXPECT_EQ(step(false), 2048);
    EXPECT_EQ(scaler.skipped_steps(), 1);
  });
}

TEST(LossScaler, UnscaledGradientsAreThoseOfThePlainLoss) {
  RunReplicas(1, TransportKind::kAuto, [](int, comm::ProcessGroup& group, store::Store& store) {
    const TinyModel scaled(1);
    const TinyModel plain(1);
    DataParallel replicas(scaled.parameters(), {}, group, store, SmallBuckets());
    LossScaler scaler({}, at::kCPU);
    replicas.ZeroGrad();
    scaler.Scale(scaled.Loss(Inputs(4, 1))).backward();
    scaler.Unscale(replicas);
    plain.Loss(Inputs(4, 1)).backward();
    for (std::size_t i = 0; i < plain.parameters().size(); ++i) {
      EXPECT_TRUE(at::equal(scaled.tensor(i).grad(), plain.tensor(i).grad()));  // a power of two
    }
    EXPECT_THROW(scaler.Unscale(replicas), Error);
  });
}

// One rank alone has an infinite gradient in step 7: all leave that step out and stay equal.
class OverflowTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Gradients, OverflowTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "scattered" : "whole"; });

TEST_P(OverflowTest, OfOneRankIsLeftOutByAll) {
  constexpr int kSteps = 10;
  constexpr int kBad = 7;
  RunReplicas(2, TransportKind::kShm, [](int rank, comm::ProcessGroup& group, store::Store& s) {
    const TinyModel model(1);
    DataParallelOptions options = SmallBuckets();
    options.scatter_gradients = GetParam();
    DataParallel replicas(model.parameters(), {}, group, s, options);
    LossScaler scaler(kQuick, at::kCPU);
    FusedOptimizer optimizer({}, model.parameters());
    for (int step = 1; step <= kSteps; ++step) {
      const std::uint64_t before = replicas.ParameterHash();
      replicas.ZeroGrad();
      const at::Tensor loss = model.Loss(Share(Inputs(8, 5), rank, 2));
      scaler.Scale(step == kBad && rank == 1 ? loss * kInf : loss).backward();
      const GradientScale scale = scaler.PrepareStep(replicas, 1.0);
      EXPECT_EQ(scaler.FoundInf(), step == kBad);
      if (!GetParam()) {  // parts are for ZeroOptimizer
        optimizer.Step(0.01, scale);
        replicas.VerifyReplicas();
        EXPECT_EQ(replicas.ParameterHash() == before, step == kBad);
      }
      scaler.Update();
    }
    EXPECT_EQ(scaler.skipped_steps(), 1);
    if (!GetParam()) {
      EXPECT_EQ(optimizer.state().back().tensor.item<float>(), kSteps - 1);
    }
  });
}

// Unscaling and clipping folded into the optimizer's kernel do what the two passes do.
TEST(LossScaler, PrepareStepEqualsUnscaleAndClip) {
  RunReplicas(1, TransportKind::kAuto, [](int, comm::ProcessGroup& group, store::Store& store) {
    const TinyModel folded(1);
    const TinyModel plain(1);
    DataParallel a(folded.parameters(), {}, group, store, SmallBuckets());
    DataParallelOptions other = SmallBuckets();
    other.name = "other";
    DataParallel b(plain.parameters(), {}, group, store, other);
    LossScaler scaler_a(kQuick, at::kCPU);
    LossScaler scaler_b(kQuick, at::kCPU);
    FusedOptimizer optimizer_a({}, folded.parameters());
    FusedOptimizer optimizer_b({}, plain.parameters());
    for (int step = 0; step < 4; ++step) {
      a.ZeroGrad();
      scaler_a.Scale(folded.Loss(Inputs(4, 1))).backward();
      optimizer_a.Step(0.01, scaler_a.PrepareStep(a, 0.3));
      scaler_a.Update();
      b.ZeroGrad();
      scaler_b.Scale(plain.Loss(Inputs(4, 1))).backward();
      scaler_b.Unscale(b);
      const auto norm = ClipGradientNorm(b, 0.3).item<double>();
      EXPECT_NEAR(scaler_a.GradientNormOfStep(), norm, 1e-5);
      optimizer_b.Step(0.01);
      scaler_b.Update();
    }
    EXPECT_LE(LargestDifference(folded.parameters(), plain.parameters()), 1e-6);
  });
}

TEST(LossScaler, RefusesOptionsThatCannotWork) {
  try {
    const LossScaler scaler({.growth_factor = 0.5}, at::kCPU);
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kConfig);
    EXPECT_STREQ(e.what(), "loss scaling: the growth factor is 0.5, it must be above 1");
  }
  EXPECT_THROW(LossScaler({}, at::kCPU).Update(), Error);
}

TEST(Autocast, ComputesIn16BitsOnlyWhileItLives) {
  const TinyModel model(1);
  {
    const Autocast autocast(at::kCPU);
    EXPECT_EQ(model.Forward(Inputs(2, 1)).scalar_type(), at::kBFloat16);
    {
      const Autocast off(at::kCPU, at::kBFloat16, /*enabled=*/false);
      EXPECT_EQ(model.Forward(Inputs(2, 1)).scalar_type(), at::kFloat);
    }
    EXPECT_EQ(model.Forward(Inputs(2, 1)).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(model.Forward(Inputs(2, 1)).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace ddp::rt
