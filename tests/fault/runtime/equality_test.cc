// Numbers that must come out equal: over ranks, over interruptions, over the number of ranks.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "runtime/base/temp_folder_test.h"
#include "runtime/checkpoint/file.h"
#include "tests/fault/runtime/checkpoints.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

constexpr const char* kConvNet = "{name: convnet, channels: 4, hidden: 16}";
constexpr const char* kMlp = "{name: mlp, hidden: 64}";

// Distortions are in: they must not depend on ranks either.
std::string Config(const std::string& model, const std::string& optimizer, int steps) {
  return "model: " + model + R"(
data: {augment: {rotateDegrees: 10, shiftPixels: 2}}
schedule: {name: cosine, warmupSteps: 5}
optimizer: )" +
         optimizer + R"(
train: {epochs: 100, batchSize: 48, logHashes: true, maxSteps: )" +
         std::to_string(steps) + "}\n";
}

constexpr const char* kSgd = "{name: sgd, learningRate: 0.05, momentum: 0.9}";
constexpr const char* kAdamW = "{name: adamw, learningRate: 0.001, weightDecay: 0.01}";

void ExpectTwoRanksAreOne(const std::string& config, const std::string& transport) {
  const TempFolder temp;
  Job one(temp.path() / "one", 1, config);
  Job two(temp.path() / "two", 2, config + "distributed: {transport: " + transport + "}\n");
  one.Start();
  ASSERT_EQ(one.Wait(), (std::vector<int>{0})) << one.logs();
  two.Start();
  ASSERT_EQ(two.Wait(), (std::vector<int>{0, 0})) << two.logs();
  const auto hashes = Hashes(two.rank(0).log());
  EXPECT_EQ(hashes.size(), 50U);
  EXPECT_EQ(hashes, Hashes(two.rank(1).log())) << "replicas must be bit-equal after each step";
  EXPECT_LE(MaxDifference(Newest(one), Newest(two)), 1e-5F);
}

TEST(Equality, TwoRanksWithHalfTheBatchAreOneRank) {
  for (const char* transport : {"shm", "tcp"}) {
    SCOPED_TRACE(transport);
    ExpectTwoRanksAreOne(Config(kMlp, kSgd, 50), transport);
  }
}

// ReLU and max-pooling have kinks, where the last bit of a sum decides which way a gradient goes,
// and a large rate then carries the runs apart; a small one keeps what is compared to the
// averaging.
TEST(Equality, SoItIsWithConvolutions) {
  ExpectTwoRanksAreOne(Config(kConvNet, "{learningRate: 0.001, momentum: 0.9}", 50), "auto");
}

class Resume : public testing::TestWithParam<const char*> {};

TEST_P(Resume, IsTheRunThatWasNotInterrupted) {
  constexpr int kSteps = 200;  // far from over when it is interrupted
  const TempFolder temp;
  Job whole(temp.path() / "whole", 2, Config(kConvNet, GetParam(), kSteps));
  whole.Start();
  ASSERT_EQ(whole.Wait(), (std::vector<int>{0, 0})) << whole.logs();
  const auto wanted = Hashes(whole.rank(0).log());

  // Interrupted within an epoch (of 9 steps), more than once.
  Job parts(temp.path() / "parts", 2, Config(kConvNet, GetParam(), kSteps));
  for (const int step : {3, 22}) {
    parts.Start();
    ASSERT_TRUE(parts.rank(1).WaitFor("hash step=" + std::to_string(step) + " ")) << parts.logs();
    parts.rank(1).Signal(SIGTERM);
    ASSERT_EQ(parts.Wait(), (std::vector<int>{75, 75})) << parts.logs();
  }
  parts.Start();
  ASSERT_EQ(parts.Wait(), (std::vector<int>{0, 0})) << parts.logs();
  const auto last = Hashes(parts.rank(0).log());
  ASSERT_FALSE(last.empty());
  for (const auto& [step, hash] : last) {
    EXPECT_EQ(hash, wanted.at(step)) << "step " << step;
  }
  const auto a = Newest(whole);
  const auto b = Newest(parts);
  EXPECT_EQ(a.model_bytes, b.model_bytes);
  EXPECT_EQ(a.optimizer_bytes, b.optimizer_bytes);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Resume, testing::Values(kSgd, kAdamW),
                         [](const auto& test) { return test.index == 0 ? "Sgd" : "AdamW"; });

// Its steps take long enough to be interrupted in good time.
constexpr const char* kWideMlp = "{name: mlp, hidden: 1024}";

// One global order of samples, a global cursor, a fixed global batch: the number of ranks may
// change.
TEST(Resume, GoesOnWithAnotherNumberOfRanks) {
  const TempFolder temp;
  Job whole(temp.path() / "whole", 1, Config(kWideMlp, kSgd, 40));
  whole.Start();
  ASSERT_EQ(whole.Wait(), (std::vector<int>{0})) << whole.logs();

  Job two(temp.path() / "parts", 2, Config(kWideMlp, kSgd, 40));
  two.Start();
  ASSERT_TRUE(two.rank(1).WaitFor("hash step=13 ")) << two.logs();
  two.rank(0).Signal(SIGTERM);
  ASSERT_EQ(two.Wait(), (std::vector<int>{75, 75})) << two.logs();
  Job four(temp.path() / "parts", 4, Config(kWideMlp, kSgd, 40));
  four.Start();
  ASSERT_EQ(four.Wait(), (std::vector<int>{0, 0, 0, 0})) << four.logs();
  EXPECT_NE(four.rank(0).log().find("resuming step="), std::string::npos) << four.logs();
  EXPECT_LE(MaxDifference(Newest(whole), Newest(four)), 1e-5F);
}

TEST(Equality, EvaluationCountsEachSampleOnce) {
  // 61 samples are no multiple of 2, 3 or 4.
  for (const int ranks : {1, 2, 3, 4}) {
    const TempFolder temp;
    WriteDigits(temp.path() / "data" / "digits", 96, 61);
    Job job(temp.path(), ranks,
            "{model: {name: mlp, hidden: 8}, train: {epochs: 1, batchSize: 48}}");
    job.Start();
    ASSERT_EQ(job.Wait(), std::vector<int>(static_cast<size_t>(ranks), 0)) << job.logs();
    EXPECT_NE(job.rank(0).results().find(" of 61)"), std::string::npos) << job.rank(0).results();
  }
}

TEST(Equality, AFinishedRunSaysSoAgain) {
  const TempFolder temp;
  Job job(temp.path(), 2, Config(kConvNet, kSgd, 10));
  job.Start();
  ASSERT_EQ(job.Wait(), (std::vector<int>{0, 0})) << job.logs();
  const std::string first = job.rank(0).results();
  job.Start();
  ASSERT_EQ(job.Wait(), (std::vector<int>{0, 0})) << job.logs();
  const std::string again = job.rank(0).results();
  EXPECT_NE(again.find("was finished after 10 steps"), std::string::npos) << again;
  EXPECT_EQ(first.substr(first.rfind("checkpoint ")), again.substr(again.rfind("checkpoint ")));
  EXPECT_EQ(job.rank(1).results(), "") << "only rank 0 prints";
}

}  // namespace
}  // namespace ddp::rt
