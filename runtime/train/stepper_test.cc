#include "runtime/train/stepper.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/train/rank_test.h"

namespace ddp::rt::train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Config WithPolicy(const std::string& policy) {
  Config config;
  config.train.non_finite = policy;
  return config;
}

void OnTwoRanks(const Config& config, const std::function<void(int, TestRank&)>& body) {
  RunReplicas(2, comm::TransportKind::kShm,
              [&](int rank, comm::ProcessGroup& group, store::Store& store) {
                TestRank one(config, group, store);
                body(rank, one);
              });
}

TEST(Stepper, OneRanksNanIsLeftOutByAll) {
  OnTwoRanks(WithPolicy("skip"), [](int rank, TestRank& one) {
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

TEST(Stepper, OrTheRunGoesBack) {
  OnTwoRanks(WithPolicy("rollback"), [](int rank, TestRank& one) {
    EXPECT_TRUE(one.Step(rank == 1 ? kNan : 1).roll_back);
    EXPECT_FALSE(one.Step(1).roll_back);
  });
}

TEST(Stepper, TellsTheGradientNormNowAndThen) {
  OnTwoRanks({}, [](int /*rank*/, TestRank& one) {
    EXPECT_GT(one.Step(1).gradient_norm.value(), 0);
    EXPECT_FALSE(one.Step(1).gradient_norm);
  });
}

// Where gradients are looked at anyway, all ranks end with the same error.
TEST(Stepper, OrTheRunEnds) {
  Config config = WithPolicy("abort");
  config.optimizer.clip_norm = 1;
  OnTwoRanks(config, [](int rank, TestRank& one) {
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
  OnTwoRanks(WithPolicy("skip"), [](int /*rank*/, TestRank& one) {
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
    OnTwoRanks(config, [](int /*rank*/, TestRank& one) {
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
  OnTwoRanks({}, [](int rank, TestRank& one) {
    if (rank == 0) {
      EXPECT_GT(one.Step(1).loss, 0);
    } else {
      EXPECT_EQ(one.StepWithout().loss, 0);
    }
  });
}

}  // namespace
}  // namespace ddp::rt::train
