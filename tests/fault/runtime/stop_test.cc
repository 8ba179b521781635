// Stopping on request: all ranks after the same step, with a checkpoint of it; and in bounded time
// whatever happens.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "runtime/base/temp_folder_test.h"
#include "runtime/checkpoint/folder.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

constexpr const char* kLong = R"(
model: {name: mlp, hidden: 16}
train: {epochs: 1000000, batchSize: 40, logHashes: true, stopSeconds: 2}
checkpoint: {everySteps: 0}
)";

class Stop : public testing::TestWithParam<int> {};

TEST_P(Stop, AllRanksSaveTheSameStep) {
  const TempFolder temp;
  Job job(temp.path(), 2, kLong);
  job.Start();
  ASSERT_TRUE(job.rank(1).WaitFor("hash step=5 ")) << job.logs();
  job.rank(GetParam()).Signal(SIGTERM);
  EXPECT_EQ(job.Wait(std::chrono::seconds(10)), (std::vector<int>{75, 75})) << job.logs();
  const auto zero = Hashes(job.rank(0).log());
  const auto one = Hashes(job.rank(1).log());
  EXPECT_EQ(zero, one);
  const auto found = checkpoint::CheckpointFolder(job.checkpoints(), 2).List();
  ASSERT_EQ(found.size(), 1U) << job.logs();
  EXPECT_EQ(found[0].problem, "");
  EXPECT_EQ(found[0].step, zero.rbegin()->first);
  EXPECT_NE(
      job.rank(0).log().find("stopped as rank " + std::to_string(GetParam()) + " was asked to"),
      std::string::npos)
      << job.logs();
}

TEST_P(Stop, InterruptIsTheSame) {
  const TempFolder temp;
  Job job(temp.path(), 2, kLong);
  job.Start();
  ASSERT_TRUE(job.rank(1).WaitFor("hash step=5 ")) << job.logs();
  job.rank(0).Signal(SIGINT);
  job.rank(1).Signal(SIGINT);
  EXPECT_EQ(job.Wait(std::chrono::seconds(10)), (std::vector<int>{75, 75})) << job.logs();
}

INSTANTIATE_TEST_SUITE_P(Ranks, Stop, testing::Values(0, 1));

TEST(Stop, BeforeTrainingEndsAtOnce) {
  const TempFolder temp;
  WriteDigits(temp.path() / "digits", 100, 20);
  // Waits for a rank 1 that never comes.
  Worker worker({"train", "--config-env", "CONFIG"}, {{"CONFIG", "{}"},
                                                      {"RANK", "0"},
                                                      {"WORLD_SIZE", "2"},
                                                      {"MASTER_ADDR", "127.0.0.1"},
                                                      {"MASTER_PORT", std::to_string(FreePort())},
                                                      {"DDP_DATA_DIR", temp.path().string()}});
  ASSERT_TRUE(worker.WaitFor("serving /metrics")) << worker.log();
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.Wait(std::chrono::seconds(5)), 128 + SIGTERM) << worker.log();
}

TEST(Stop, HasADeadline) {
  const TempFolder temp;
  Job job(temp.path(), 2, kLong);
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("hash step=5 ")) << job.logs();
  job.rank(1).Signal(SIGSTOP);
  job.rank(0).Signal(SIGTERM);
  // stopSeconds is 2.
  EXPECT_EQ(job.rank(0).Wait(std::chrono::seconds(10)), 128 + SIGTERM) << job.logs();
  EXPECT_NE(job.rank(0).log().find("leaving took longer than allowed"), std::string::npos)
      << job.logs();
}

TEST(Stop, ASecondSignalEndsAtOnce) {
  const TempFolder temp;
  Job job(temp.path(), 2, std::string(kLong) + "distributed: {timeoutSeconds: 60}\n");
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("hash step=5 ")) << job.logs();
  job.rank(1).Signal(SIGSTOP);
  job.rank(0).Signal(SIGTERM);
  ASSERT_TRUE(job.rank(0).WaitFor("received SIGTERM: all ranks will")) << job.logs();
  job.rank(0).Signal(SIGINT);
  EXPECT_EQ(job.rank(0).Wait(std::chrono::milliseconds(1500)), 128 + SIGINT) << job.logs();
}

TEST(Stop, WithoutACheckpointFolderItIsLikeADeathBySignal) {
  const TempFolder temp;
  Job job(temp.path(), 1, kLong, {{"DDP_CHECKPOINT_DIR", ""}});
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("hash step=5 ")) << job.logs();
  job.rank(0).Signal(SIGTERM);
  EXPECT_EQ(job.Wait(std::chrono::seconds(10)), (std::vector<int>{128 + SIGTERM})) << job.logs();
}

}  // namespace
}  // namespace ddp::rt
