// Parameters that take no part in the loss of some rank, or of any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/ddp/fused_optimizer.h"
#include "runtime/ddp/replicas_test.h"

namespace ddp::rt {
namespace {

using comm::TransportKind;
using ::testing::HasSubstr;

DataParallelOptions FindUnused() {
  DataParallelOptions options = SmallBuckets();
  options.find_unused_parameters = true;
  return options;
}

// A model with a branch: without it the second layer takes no part.
at::Tensor Loss(const TinyModel& model, const at::Tensor& x, bool branch) {
  return branch ? model.Loss(x)
                : at::linear(x, model.tensor(0), model.tensor(1)).square().sum(1).mean();
}

TEST(UnusedParameters, OfOneRankCountAsZeroInTheMean) {
  const at::Tensor batch = Inputs(8, 1);
  const TinyModel alone(7);
  Loss(alone, Share(batch, 0, 2), true).backward();
  RunReplicas(2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store& s) {
    const TinyModel model(7);
    DataParallel replicas(model.parameters(), {}, group, s, FindUnused());
    for (int step = 0; step < 3; ++step) {
      replicas.ZeroGrad();
      Loss(model, Share(batch, rank, 2), rank == 0).backward();
      replicas.EnsureReduced();
      EXPECT_TRUE(at::allclose(model.tensor(2).grad(), alone.tensor(2).grad() / 2));
    }
  });
}

TEST(UnusedParameters, OfAllRanksHaveNoGradientAndStayAsTheyAre) {
  RunReplicas(2, TransportKind::kShm, [&](int, comm::ProcessGroup& group, store::Store& s) {
    const TinyModel model(7);
    const TinyModel before(7);
    DataParallel replicas(model.parameters(), {}, group, s, FindUnused());
    FusedOptimizer optimizer({.weight_decay = 0.5}, model.parameters());
    for (const bool branch : {false, true, false}) {
      replicas.ZeroGrad();
      Loss(model, Inputs(4, 1), branch).backward();
      EXPECT_EQ(model.tensor(2).grad().defined(), branch);
      EXPECT_TRUE(model.tensor(0).grad().defined());
      if (!branch) {
        optimizer.Step(0.1);
        EXPECT_TRUE(at::equal(model.tensor(2), before.tensor(2)));
      }
    }
  });
}

// What a micro-batch under NoSync used is used in the step.
TEST(UnusedParameters, AreCountedOverTheWholeAccumulation) {
  RunReplicas(2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store& s) {
    const TinyModel model(7);
    DataParallel replicas(model.parameters(), {}, group, s, FindUnused());
    replicas.ZeroGrad();
    {
      const DataParallel::NoSync no_sync(replicas);
      Loss(model, Inputs(4, 1), rank == 1).backward();
    }
    Loss(model, Inputs(4, 1), false).backward();
    ASSERT_TRUE(model.tensor(2).grad().defined());
    EXPECT_GT(model.tensor(2).grad().abs().sum().item<float>(), 0);
  });
}

// Without the option: named, with the rank, the step and what to do, within seconds, on all ranks.
TEST(UnusedParameters, AreNamedWhereTheyAreNotExpected) {
  const auto start = std::chrono::steady_clock::now();
  const auto store = std::make_shared<store::HashStore>();
  comm::RunRanks(2, [&](int rank) {
    const auto group = CreateProcessGroup(*store, comm::TestOptions(rank, 2, TransportKind::kShm));
    const TinyModel model(7);
    DataParallel replicas(model.parameters(), {}, *group, *store, SmallBuckets());
    replicas.ZeroGrad();
    Loss(model, Inputs(4, 1), true).backward();
    replicas.ZeroGrad();
    try {
      Loss(model, Inputs(4, 1), rank == 0).backward();
      ADD_FAILURE() << "must throw";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), rank == 1 ? ExitCode::kSoftware : ExitCode::kUnavailable);
      EXPECT_THAT(e.what(), HasSubstr("rank 1: step 2: backward gave no gradient to 2 of 4 "
                                      "parameters ('second.weight', 'second.bias')"));
      EXPECT_THAT(e.what(), HasSubstr("set find_unused_parameters"));
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace ddp::rt
