#include "runtime/ddp/zero_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "runtime/base/error.h"
#include "runtime/ddp/loss_scaler.h"
#include "runtime/ddp/replicas_test.h"

namespace ddp::rt {
namespace {

using comm::TransportKind;
using ::testing::HasSubstr;
using Kind = OptimizerOptions::Kind;

DataParallelOptions Sharded(bool scatter) {
  DataParallelOptions options = SmallBuckets();
  options.shard_optimizer = true;
  options.scatter_gradients = scatter;
  return options;
}

struct Case {
  Kind kind;
  bool scatter;
};

class ZeroOptimizerTest : public ::testing::TestWithParam<Case> {
 protected:
  static OptimizerOptions Options() {
    return {
        .kind = GetParam().kind, .weight_decay = 0.1, .decay_matrices_only = true, .momentum = 0.9};
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, ZeroOptimizerTest,
                         ::testing::Values(Case{Kind::kAdamW, false}, Case{Kind::kAdamW, true},
                                           Case{Kind::kSgd, true}),
                         [](const auto& tested) {
                           return std::string(tested.param.kind == Kind::kSgd ? "sgd" : "adamw") +
                                  (tested.param.scatter ? "_scattered" : "");
                         });

TEST_P(ZeroOptimizerTest, TrainsAsTheWholeOptimizerDoes) {
  constexpr int kSteps = 5;
  const at::Tensor batch = Inputs(12, 1);
  for (const int world : {2, 3}) {
    RunReplicas(world, TransportKind::kShm,
                [&](int rank, comm::ProcessGroup& group, store::Store& store) {
                  const TinyModel sharded(7);
                  const TinyModel whole(7);
                  DataParallel replicas(sharded.parameters(), {}, group, store,
                                        Sharded(GetParam().scatter));
                  ZeroOptimizer optimizer(Options(), replicas);
                  DataParallelOptions other = SmallBuckets();
                  other.name = "whole";
                  DataParallel plain(whole.parameters(), {}, group, store, other);
                  FusedOptimizer reference(Options(), whole.parameters());
                  for (int step = 0; step < kSteps; ++step) {
                    for (const auto& [model, engine] :
                         {std::pair(&sharded, &replicas), std::pair(&whole, &plain)}) {
                      engine->ZeroGrad();
                      model->Loss(Share(batch, rank, world)).backward();
                    }
                    optimizer.Step(0.01);
                    reference.Step(0.01);
                    replicas.VerifyReplicas();
                  }
                  EXPECT_LE(LargestDifference(sharded.parameters(), whole.parameters()), 1e-6);
                });
  }
}

TEST(ZeroOptimizer, HoldsItsShareOfTheState) {
  RunReplicas(2, TransportKind::kShm, [&](int, comm::ProcessGroup& group, store::Store& store) {
    const TinyModel model(7);
    DataParallel replicas(model.parameters(), {}, group, store, Sharded(true));
    const ZeroOptimizer sharded({}, replicas);
    const FusedOptimizer whole({}, model.parameters());
    const auto elements = [](const std::vector<NamedTensor>& state) {
      std::int64_t sum = 0;
      for (const NamedTensor& item : state) {
        sum += item.tensor.numel();
      }
      return static_cast<double>(sum);
    };
    EXPECT_NEAR(elements(sharded.state()) / elements(whole.state()), 0.5, 0.1);
  });
}

// What every rank would hand to its shard of a checkpoint, all together.
std::vector<NamedTensor> Train(int world, int steps, const TinyModel& model,
                               const std::vector<NamedTensor>& from) {
  std::mutex mutex;
  std::vector<NamedTensor> pieces;
  const at::Tensor batch = Inputs(12, 1);
  RunReplicas(world, TransportKind::kShm,
              [&](int rank, comm::ProcessGroup& group, store::Store& store) {
                const TinyModel mine(7);
                {
                  const at::NoGradGuard no_grad;
                  for (std::size_t i = 0; i < mine.parameters().size(); ++i) {
                    mine.tensor(i).copy_(model.tensor(i));
                  }
                }
                group.Barrier({.name = "models copied"})->Wait();
                DataParallel replicas(mine.parameters(), {}, group, store, Sharded(true));
                ZeroOptimizer optimizer({}, replicas);
                if (!from.empty()) {
                  optimizer.LoadState(from, "the checkpoint");
                }
                for (int step = 0; step < steps; ++step) {
                  replicas.ZeroGrad();
                  mine.Loss(Share(batch, rank, world)).backward();
                  optimizer.Step(0.01);
                }
                const std::scoped_lock lock(mutex);
                for (const NamedTensor& item : optimizer.state()) {
                  pieces.push_back({item.name, item.tensor.clone()});
                }
                if (rank == 0) {
                  const at::NoGradGuard no_grad;
                  for (std::size_t i = 0; i < mine.parameters().size(); ++i) {
                    model.tensor(i).copy_(mine.tensor(i));
                  }
                }
              });
  return pieces;
}

TEST(ZeroOptimizer, StateIsCutAnewForAnotherWorldSize) {
  const TinyModel undisturbed(7);
  Train(2, 6, undisturbed, {});
  const TinyModel moved(7);
  const auto of_two = Train(2, 2, moved, {});
  const auto of_three = Train(3, 2, moved, of_two);
  Train(1, 2, moved, of_three);
  EXPECT_LE(LargestDifference(undisturbed.parameters(), moved.parameters()), 1e-6);
}

TEST(ZeroOptimizer, SameWorldGoesOnToTheBit) {
  const TinyModel undisturbed(7);
  Train(2, 4, undisturbed, {});
  const TinyModel resumed(7);
  const auto state = Train(2, 2, resumed, {});
  Train(2, 2, resumed, state);
  EXPECT_EQ(LargestDifference(undisturbed.parameters(), resumed.parameters()), 0);
}

TEST(ZeroOptimizer, SaysWhatItNeeds) {
  RunReplicas(1, TransportKind::kAuto, [&](int, comm::ProcessGroup& group, store::Store& store) {
    const TinyModel model(7);
    DataParallel replicas(model.parameters(), {}, group, store, SmallBuckets());
    try {
      const ZeroOptimizer optimizer({}, replicas);
      FAIL() << "must throw";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("set shard_optimizer"));
    }
  });
}

}  // namespace
}  // namespace ddp::rt
