#include "runtime/ddp/uneven_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/ddp/fused_optimizer.h"
#include "runtime/ddp/replicas_test.h"

namespace ddp::rt {
namespace {

using comm::TransportKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using When = UnevenInputsOptions::When;

// 10 samples, 3 ranks, batches of 2: ranks have 4, 3 and 3 samples.
constexpr int kRanks = 3;
int BatchesOf(int rank) { return rank == 0 ? 2 : 1; }

TEST(UnevenInputs, RanksWithoutABatchGoAlongAndStayEqual) {
  RunReplicas(kRanks, TransportKind::kShm,
              [](int rank, comm::ProcessGroup& group, store::Store& store) {
                const TinyModel model(1);
                DataParallel replicas(model.parameters(), {}, group, store, SmallBuckets());
                FusedOptimizer optimizer({}, model.parameters());
                UnevenInputs inputs(replicas, {});
                int batch = 0;
                while (inputs.Next(batch < BatchesOf(rank))) {
                  replicas.ZeroGrad();
                  if (inputs.has_batch()) {
                    model.Loss(Inputs(2, static_cast<std::uint64_t>(batch))).backward();
                    ++batch;
                  } else {
                    inputs.Shadow();
                  }
                  replicas.EnsureReduced();
                  optimizer.Step(0.01);
                  replicas.VerifyReplicas();
                }
                EXPECT_EQ(inputs.steps(), 2);
                EXPECT_EQ(replicas.steps(), 2);
                EXPECT_THAT(inputs.BatchesOfRanks(), ElementsAre(2, 1, 1));
                EXPECT_EQ(inputs.Describe(),
                          "uneven inputs: rank(s) 0 had 2 batches, rank(s) 1, 2 had 1 batches; all "
                          "ranks took 2 steps, those without a batch with zeros");
              });
}

TEST(UnevenInputs, TheMeanIsOverAllRanksOrOverThoseWithABatch) {
  const TinyModel alone(1);
  alone.Loss(Inputs(2, 4)).backward();
  for (const bool by_active : {false, true}) {
    RunReplicas(2, TransportKind::kShm,
                [&](int rank, comm::ProcessGroup& group, store::Store& store) {
                  const TinyModel model(1);
                  DataParallel replicas(model.parameters(), {}, group, store, SmallBuckets());
                  UnevenInputs inputs(replicas, {.divide_by_active = by_active});
                  ASSERT_TRUE(inputs.Next(rank == 0));
                  EXPECT_EQ(inputs.active(), 1);
                  replicas.ZeroGrad();
                  if (inputs.has_batch()) {
                    model.Loss(Inputs(2, 4)).backward();
                  } else {
                    inputs.Shadow();
                  }
                  const double share = by_active ? 1 : 0.5;
                  EXPECT_TRUE(at::allclose(model.tensor(0).grad(), alone.tensor(0).grad() * share));
                });
  }
}

TEST(UnevenInputs, CanEndOnAllRanksWithTheFirst) {
  RunReplicas(2, TransportKind::kShm, [](int rank, comm::ProcessGroup& group, store::Store& s) {
    const TinyModel model(1);
    DataParallel replicas(model.parameters(), {}, group, s, SmallBuckets());
    UnevenInputs inputs(replicas, {.when = When::kStopAll});
    int batch = 0;
    while (inputs.Next(batch < 3 + rank)) {
      replicas.ZeroGrad();
      model.Loss(Inputs(2, 4)).backward();
      ++batch;
    }
    EXPECT_EQ(batch, 3);
    EXPECT_EQ(inputs.Describe(),
              "uneven inputs: rank(s) 0 had no more batches after 3 steps, so all ranks ended");
  });
}

// Without any of this: the rank that is through with its epoch and the one that is not make
// different calls, which both hear of at once, instead of waiting for each other.
TEST(UnevenInputs, AreFoundAtTheEndOfTheEpoch) {
  const auto start = std::chrono::steady_clock::now();
  const auto store = std::make_shared<store::HashStore>();
  comm::RunRanks(2, [&](int rank) {
    const auto group = CreateProcessGroup(*store, comm::TestOptions(rank, 2, TransportKind::kShm));
    const TinyModel model(1);
    DataParallel replicas(model.parameters(), {}, *group, *store, SmallBuckets());
    try {
      for (int batch = 0; batch < 3 + rank; ++batch) {
        replicas.ZeroGrad();
        model.Loss(Inputs(2, 4)).backward();
      }
      group->Barrier({.name = "end of epoch"})->Wait();
      ADD_FAILURE() << "must throw";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("end of epoch"));
      EXPECT_THAT(e.what(), HasSubstr("bucket 0 step 4"));
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// Batches of 1 and 99 samples on two ranks against one of 100.
TEST(SumToMean, WeighsSamplesNotRanks) {
  const at::Tensor batch = Inputs(100, 4);
  const TinyModel alone(1);
  alone.Loss(batch).backward();
  RunReplicas(2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store& s) {
    const TinyModel model(1);
    DataParallel replicas(model.parameters(), {}, group, s, SmallBuckets());
    const at::Tensor mine = rank == 0 ? batch.narrow(0, 0, 1) : batch.narrow(0, 1, 99);
    replicas.ZeroGrad();
    const double factor = SumToMeanFactor(group, mine.size(0));
    ((model.Forward(mine) - 1).square().sum() * factor).backward();
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      EXPECT_LE((model.tensor(i).grad() - alone.tensor(i).grad()).abs().max().item<double>(), 1e-6);
    }
  });
}

}  // namespace
}  // namespace ddp::rt
