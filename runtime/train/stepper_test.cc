#include "runtime/train/stepper.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/ddp/replicas_test.h"

namespace ddp::rt::train {
namespace {

constexpr data::DataShape kShape{.channels = 1, .rows = 2, .columns = 2, .classes = 3};

class NoData final : public data::Dataset {
 public:
  int64_t size() const override { return 8; }
  int64_t labels_per_sample() const override { return 1; }
  data::DataShape shape() const override { return kShape; }
  data::Batch Make(std::span<const int64_t> /*samples*/,
                   const data::Draw* /*draw*/) const override {
    return {};
  }
};

// One rank of a run with a small model, stepped by hand.
class Rank {
 public:
  Rank(const Config& config, comm::ProcessGroup& group, store::Store& store)
      : config_(config),
        run_{.config = config_,
             .data = data_,
             .folder = nullptr,
             .group = group,
             .device_group = group,
             .norm_group = nullptr,
             .store = store,
             .signals = signals_,
             .board = board_,
             .device = at::kCPU},
        model_(MakeModel({.name = "mlp", .hidden = 4}, kShape, 1)) {
    data_.train = std::make_unique<NoData>();
    stepper_.emplace(run_, *model_);
  }

  StepReport Step(double input) {
    data::LoadedStep step;
    step.plan = {.step = steps_++, .samples = {0, 1}, .total = 4, .part = 2};
    step.parts.push_back(
        {.inputs = at::full({2, 1, 2, 2}, input, at::kFloat), .labels = at::zeros({2}, at::kLong)});
    return stepper_->Run(step, 0.1);
  }
  StepReport StepWithout() {
    data::LoadedStep step;
    step.plan = {.step = steps_++, .samples = {}, .total = 2, .part = 2};
    step.parts.push_back(
        {.inputs = at::zeros({0, 1, 2, 2}, at::kFloat), .labels = at::zeros({0}, at::kLong)});
    return stepper_->Run(step, 0.1);
  }
  uint64_t hash() { return stepper_->replicas().ParameterHash(); }

 private:
  const Config config_;
  data::Datasets data_;
  StopSignals signals_;
  Board board_;
  RunContext run_;
  std::unique_ptr<Model> model_;
  std::optional<Stepper> stepper_;
  int64_t steps_ = 0;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Config WithPolicy(const std::string& policy) {
  Config config;
  config.train.non_finite = policy;
  return config;
}

void OnTwoRanks(const Config& config, const std::function<void(int, Rank&)>& body) {
  RunReplicas(2, comm::TransportKind::kShm,
              [&](int rank, comm::ProcessGroup& group, store::Store& store) {
                Rank one(config, group, store);
                body(rank, one);
              });
}

TEST(Stepper, OneRanksNanIsLeftOutByAll) {
  OnTwoRanks(WithPolicy("skip"), [](int rank, Rank& one) {
    EXPECT_FALSE(one.Step(1).skipped);
    const uint64_t before = one.hash();
    const StepReport report = one.Step(rank == 1 ? kNan : 1);
    EXPECT_TRUE(report.skipped);
    EXPECT_FALSE(report.roll_back);
    EXPECT_EQ(one.hash(), before);
    EXPECT_EQ(std::isnan(report.loss), rank == 1);
    EXPECT_FALSE(one.Step(1).skipped);
    EXPECT_NE(one.hash(), before);
  });
}

TEST(Stepper, OrTheRunGoesBackAtMostThreeTimes) {
  OnTwoRanks(WithPolicy("rollback"), [](int rank, Rank& one) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(one.Step(rank == 1 ? kNan : 1).roll_back);
      EXPECT_FALSE(one.Step(1).roll_back);
    }
    EXPECT_THROW(one.Step(rank == 1 ? kNan : 1), Error);
  });
}

// Where gradients are looked at anyway, all ranks end with the same error.
TEST(Stepper, OrTheRunEnds) {
  Config config = WithPolicy("abort");
  config.optimizer.clip_norm = 1;
  OnTwoRanks(config, [](int rank, Rank& one) {
    EXPECT_GT(one.Step(1).gradient_norm.value(), 0);
    try {
      one.Step(rank == 1 ? kNan : 1);
      ADD_FAILURE() << "went on";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kSoftware);
      EXPECT_NE(std::string(e.what()).find("gradients are not finite in step 2"), std::string::npos)
          << e.what();
    }
  });
}

TEST(Stepper, SkippingForEverIsAnError) {
  OnTwoRanks(WithPolicy("skip"), [](int /*rank*/, Rank& one) {
    EXPECT_THROW(
        {
          for (int i = 0; i < 200; ++i) {
            one.Step(kNan);
          }
        },
        Error);
  });
}

TEST(Stepper, EveryPrecisionLearns) {
  for (const char* precision : {"float32", "bfloat16", "float16"}) {
    SCOPED_TRACE(precision);
    Config config;
    config.train.precision = precision;
    OnTwoRanks(config, [](int /*rank*/, Rank& one) {
      const double first = one.Step(1).loss;
      StepReport last;
      for (int i = 0; i < 20; ++i) {
        last = one.Step(1);
      }
      EXPECT_LT(last.loss, first / 2);
      EXPECT_GT(last.forward.count(), 0);
      EXPECT_GE(last.backward, last.exposed);
    });
  }
}

TEST(Stepper, ARankWithoutSamplesTakesPart) {
  OnTwoRanks({}, [](int rank, Rank& one) {
    if (rank == 0) {
      EXPECT_GT(one.Step(1).loss, 0);
    } else {
      EXPECT_EQ(one.StepWithout().loss, 0);
    }
  });
}

}  // namespace
}  // namespace ddp::rt::train
