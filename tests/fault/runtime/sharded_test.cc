// A run whose optimizer state lies in shards, one file a rank: it goes on exactly, with another
// number of ranks, and with and without shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "runtime/base/temp_folder_test.h"
#include "tests/fault/runtime/checkpoints.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

std::string Config(bool sharded) {
  return std::string(R"(
model: {name: mlp, hidden: 64}
schedule: {name: cosine, warmupSteps: 5}
optimizer: {name: adamw, learningRate: 0.001, weightDecay: 0.01, sharded: )") +
         (sharded ? "true" : "false") + R"(}
train: {epochs: 100, batchSize: 48, logHashes: true, maxSteps: 100}
)";
}

// Stops a job after a step, all ranks with a checkpoint.
void RunUntil(Job& job, int ranks, int step) {
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("hash step=" + std::to_string(step) + " ")) << job.logs();
  job.rank(ranks - 1).Signal(SIGTERM);
  ASSERT_EQ(job.Wait(), std::vector<int>(static_cast<size_t>(ranks), 75)) << job.logs();
}

TEST(Sharded, ResumeIsTheRunThatWasNotInterrupted) {
  const TempFolder temp;
  Job whole(temp.path() / "whole", 2, Config(true));
  whole.Start();
  ASSERT_EQ(whole.Wait(), (std::vector<int>{0, 0})) << whole.logs();
  const auto wanted = Hashes(whole.rank(0).log());
  Job parts(temp.path() / "parts", 2, Config(true));
  RunUntil(parts, 2, 13);
  EXPECT_EQ(Newest(parts).shards, 2);
  parts.Start();
  ASSERT_EQ(parts.Wait(), (std::vector<int>{0, 0})) << parts.logs();
  EXPECT_THAT(parts.rank(0).log(), testing::HasSubstr("resuming step="));
  const auto last = Hashes(parts.rank(1).log());
  ASSERT_FALSE(last.empty());
  EXPECT_LT(last.size(), wanted.size());
  for (const auto& [step, hash] : last) {
    EXPECT_EQ(hash, wanted.at(step)) << "step " << step;
  }
}

TEST(Sharded, GoesOnWithOtherRanksAndWithoutShards) {
  const TempFolder temp;
  Job whole(temp.path() / "whole", 1, Config(false));
  whole.Start();
  ASSERT_EQ(whole.Wait(), (std::vector<int>{0})) << whole.logs();

  Job whole_state(temp.path() / "parts", 2, Config(false));
  RunUntil(whole_state, 2, 5);
  Job two(temp.path() / "parts", 2, Config(true));
  RunUntil(two, 2, 12);
  EXPECT_EQ(Newest(two).shards, 2);
  Job three(temp.path() / "parts", 3, Config(true));
  RunUntil(three, 3, 20);
  EXPECT_EQ(Newest(three).shards, 3);
  Job one(temp.path() / "parts", 1, Config(false));
  one.Start();
  ASSERT_EQ(one.Wait(), (std::vector<int>{0})) << one.logs();
  EXPECT_EQ(Newest(one).shards, 0);
  EXPECT_LE(MaxDifference(Newest(whole), Newest(one)), 1e-5F);
}

}  // namespace
}  // namespace ddp::rt
