#include "runtime/train/saving.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"
#include "runtime/train/rank_test.h"

namespace ddp::rt::train {
namespace {

constexpr int kRanks = 2;

Config WithRollback(bool sharded, const char* precision = "float32") {
  Config config;
  config.optimizer.name = "adamw";
  config.optimizer.sharded = sharded;
  config.train.precision = precision;
  config.train.non_finite = "rollback";
  return config;
}

// Ranks that share a folder, as far as they need one.
void OnRanks(const Config& config, const std::filesystem::path& path,
             const std::function<void(int, TestRank&)>& body) {
  RunReplicas(kRanks, comm::TransportKind::kShm,
              [&](int rank, comm::ProcessGroup& group, store::Store& store) {
                checkpoint::CheckpointFolder folder(path, 2);
                const bool uses_it = rank == 0 || config.optimizer.sharded;
                TestRank one(config, group, store, uses_it ? &folder : nullptr);
                body(rank, one);
              });
}

void ExpectEqual(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].equal(b[i])) << "tensor " << i;
  }
}

class RollBack : public testing::TestWithParam<bool> {};

TEST_P(RollBack, GivesAllRanksTheNewestCheckpoint) {
  const TempFolder temp;
  OnRanks(WithRollback(GetParam()), temp.path(), [](int /*rank*/, TestRank& one) {
    one.Step(1);
    one.Save();
    one.Step(2);
    one.Step(3);
    one.Save();
    const uint64_t hash = one.hash();
    const auto state = one.state();
    // Where it leads from there, to compare with.
    one.Step(4);
    const uint64_t next = one.hash();
    EXPECT_NE(next, hash);
    one.Step(5);
    one.saving().RollBack();
    EXPECT_EQ(one.hash(), hash);
    ExpectEqual(one.state(), state);
    one.Step(4);
    EXPECT_EQ(one.hash(), next);
  });
}

TEST_P(RollBack, EndsTheRunWhenItDoesNotHelp) {
  const TempFolder temp;
  OnRanks(WithRollback(GetParam()), temp.path(), [](int /*rank*/, TestRank& one) {
    for (int checkpoint = 0; checkpoint < 2; ++checkpoint) {
      one.Step(1);
      one.Save();
      for (int again = 0; again < 3; ++again) {
        one.saving().RollBack();
      }
    }
    try {
      one.saving().RollBack();
      ADD_FAILURE() << "went back";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kSoftware);
      EXPECT_NE(std::string(e.what()).find("after 3 returns to the checkpoint of step 2: "),
                std::string::npos)
          << e.what();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Saving, RollBack, testing::Bool(),
                         [](const auto& test) { return test.param ? "Sharded" : "Whole"; });

// The scale has moved from where it starts.
TEST(Saving, ALossScalerGoesOnWhereItWas) {
  const TempFolder temp;
  Config config = WithRollback(false, "float16");
  config.train.loss_scale = 1e9;  // too large: halved until gradients fit
  uint64_t wanted[kRanks] = {};
  std::vector<at::Tensor> state[kRanks];
  OnRanks(config, temp.path(), [&](int rank, TestRank& one) {
    for (int i = 0; i < 20; ++i) {
      one.Step(100);
    }
    one.Save();
    state[rank] = one.state();
    for (int i = 0; i < 5; ++i) {
      one.Step(2);
    }
    wanted[rank] = one.hash();
  });
  EXPECT_LT(state[0].end()[-2].item<float>(), 1e9) << "the scale";
  OnRanks(config, temp.path(), [&](int rank, TestRank& one) {
    EXPECT_EQ(one.steps(), 20);
    ExpectEqual(one.state(), state[rank]);
    for (int i = 0; i < 5; ++i) {
      one.Step(2);
    }
    EXPECT_EQ(one.hash(), wanted[rank]);
  });
}

}  // namespace
}  // namespace ddp::rt::train
