// A rank is lost: the others notice within a bound, end with 69 and name it; a new attempt goes on
// from the newest checkpoint.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "runtime/base/temp_folder_test.h"
#include "runtime/checkpoint/folder.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

namespace fs = std::filesystem;

// From the loss to the end of the others.
constexpr std::chrono::seconds kNoticed(10);

// Small and long: what happens to it happens in the middle.
constexpr const char* kLong = R"(
model: {name: mlp, hidden: 16}
train: {epochs: 1000000, batchSize: 40}
checkpoint: {everySteps: 20}
)";

// "rank 1 …" or, when several may be missing, "rank(s) 1 …", in the last line.
void ExpectNames(Worker& survivor, int lost) {
  const std::string log = survivor.log();
  const std::string last = log.substr(log.rfind("\nE "));
  const std::string number = std::to_string(lost);
  EXPECT_TRUE(last.find("rank " + number + " ") != std::string::npos ||
              last.find("rank " + number + ":") != std::string::npos ||
              last.find("rank(s) " + number + " ") != std::string::npos)
      << log;
}

class LossOfRank : public testing::TestWithParam<int> {};

TEST_P(LossOfRank, KilledIsNoticedAndNamed) {
  const TempFolder temp;
  const int lost = GetParam();
  Job job(temp.path(), 2, kLong);
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("saved checkpoint")) << job.logs();
  job.rank(lost).Signal(SIGKILL);
  Worker& survivor = job.rank(1 - lost);
  EXPECT_EQ(survivor.Wait(kNoticed), 69) << job.logs();
  ExpectNames(survivor, lost);
  EXPECT_EQ(job.rank(lost).Wait(), 128 + SIGKILL);
}

TEST_P(LossOfRank, StoppedIsNoticedAtTheDeadline) {
  const TempFolder temp;
  const int lost = GetParam();
  Job job(temp.path(), 2,
          std::string(kLong) + "distributed: {timeoutSeconds: 2, checkpointTimeoutSeconds: 2}\n");
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("saved checkpoint")) << job.logs();
  job.rank(lost).Signal(SIGSTOP);
  Worker& survivor = job.rank(1 - lost);
  EXPECT_EQ(survivor.Wait(std::chrono::seconds(20)), 69) << job.logs();
  ExpectNames(survivor, lost);
}

// Between the first steps the ranks agree on the order of gradients, too.
TEST_P(LossOfRank, InTheFirstStepsIsNoticedToo) {
  const int lost = GetParam();
  for (const int step : {1, 1, 2, 3}) {
    SCOPED_TRACE("step " + std::to_string(step));
    const TempFolder temp;
    Job job(temp.path(), 2,
            "{model: {name: mlp, hidden: 16}, train: {epochs: 1000000, batchSize: 40, logHashes: "
            "true}}");
    job.Start();
    ASSERT_TRUE(job.rank(lost).WaitFor("hash step=" + std::to_string(step) + " ")) << job.logs();
    job.rank(lost).Signal(SIGKILL);
    Worker& survivor = job.rank(1 - lost);
    EXPECT_EQ(survivor.Wait(kNoticed), 69) << job.logs();
    ExpectNames(survivor, lost);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LossOfRank, testing::Values(0, 1));

TEST(LossOfRank, AFailureIsNamedByTheOthers) {
  const TempFolder temp;
  Job job(temp.path(), 2, R"(
model: {name: mlp, hidden: 16}
optimizer: {learningRate: 1000, weightDecay: 1}
train: {epochs: 1000, batchSize: 40}
checkpoint: {everySteps: 1}
)");
  job.Start();
  const auto codes = job.Wait();
  EXPECT_TRUE(codes[0] == 70 || codes[1] == 70) << job.logs();
  for (const int code : codes) {
    EXPECT_TRUE(code == 70 || code == 69) << code << job.logs();
  }
  EXPECT_NE(job.logs().find("training diverged"), std::string::npos) << job.logs();
  // No checkpoint of it is there to fail the next attempt too.
  for (const auto& found : checkpoint::CheckpointFolder(job.checkpoints(), 2).List()) {
    EXPECT_EQ(found.problem, "");
  }
}

TEST(LossOfRank, ADamagedNewestCheckpointIsNotUsed) {
  const TempFolder temp;
  Job job(temp.path(), 2, kLong);
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("step-000000000040")) << job.logs();
  job.rank(1).Signal(SIGKILL);
  job.Wait();
  const auto before = checkpoint::CheckpointFolder(job.checkpoints(), 2).List();
  ASSERT_GE(before.size(), 2U);
  ASSERT_EQ(before[0].problem, "");
  ASSERT_EQ(before[1].problem, "");
  fs::resize_file(before[0].path / "model.safetensors", 99);
  job.Start();
  EXPECT_TRUE(job.rank(0).WaitFor("refused checkpoint path=" + before[0].path.string() +
                                  ": model.safetensors has 99 bytes instead of"))
      << job.logs();
  EXPECT_TRUE(job.rank(0).WaitFor("resuming step=" + std::to_string(before[1].step))) << job.logs();
}

TEST(LossOfRank, KilledAtRandomMomentsTheWorkGoesOn) {
  constexpr const char* kShort = R"(
model: {name: mlp, hidden: 16}
train: {epochs: 12, batchSize: 40, logHashes: true}
checkpoint: {everySteps: 7}
)";
  const TempFolder temp;
  Job undisturbed(temp.path() / "undisturbed", 2, kShort);
  undisturbed.Start();
  ASSERT_EQ(undisturbed.Wait(), (std::vector<int>{0, 0})) << undisturbed.logs();
  const auto wanted = Hashes(undisturbed.rank(1).log());
  ASSERT_EQ(wanted.size(), 120U);

  Job job(temp.path() / "disturbed", 2, kShort);
  const char* seed = std::getenv("DDP_TEST_SEED");
  std::mt19937 random(seed != nullptr ? std::strtoul(seed, nullptr, 10) : 3);
  for (const int step : {10, 40, 41, 90}) {
    job.Start();
    const int victim = static_cast<int>(random() % 2);
    ASSERT_TRUE(job.rank(victim).WaitFor("hash step=" + std::to_string(step))) << job.logs();
    job.rank(victim).Signal(SIGKILL);
    job.Wait();
  }
  job.Start();
  ASSERT_EQ(job.Wait(), (std::vector<int>{0, 0})) << job.logs();
  const auto last = Hashes(job.rank(1).log());
  ASSERT_FALSE(last.empty());
  EXPECT_LT(last.size(), wanted.size()) << "must have resumed";
  for (const auto& [step, hash] : last) {
    EXPECT_EQ(hash, wanted.at(step)) << "step " << step;
  }
  EXPECT_EQ(last.rbegin()->first, 120);
}

}  // namespace
}  // namespace ddp::rt
