// ddp-worker launch with real ranks that train.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <regex>

#include "runtime/base/temp_folder_test.h"
#include "runtime/checkpoint/folder.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

using testing::HasSubstr;

constexpr const char* kLong = R"(
model: {name: mlp, hidden: 16}
train: {epochs: 1000000, batchSize: 48, logHashes: true}
checkpoint: {everySteps: 20}
)";

// A job of so many ranks under one launcher; each rank says its process id first.
class LaunchTrain : public testing::Test {
 protected:
  LaunchTrain() { WriteDigits(temp_.path() / "data" / "digits", 400, 60); }

  std::unique_ptr<Worker> Start(int ranks, const std::string& config,
                                const std::string& job = "job",
                                std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"launch", "--nproc-per-node", std::to_string(ranks)});
    options.insert(options.end(),
                   {"sh", "-c", "echo pid $$; exec \"$0\" train --config-env CONFIG", DDP_WORKER});
    return std::make_unique<Worker>(options,
                                    Environment{{"PATH", "/usr/bin:/bin"},
                                                {"CONFIG", config},
                                                {"DDP_DATA_DIR", (temp_.path() / "data").string()},
                                                {"DDP_CHECKPOINT_DIR", Checkpoints(job).string()}});
  }
  std::filesystem::path Checkpoints(const std::string& job = "job") const {
    return temp_.path() / "checkpoints" / job;
  }

  static int PidOf(const Worker& worker, int rank) {
    std::smatch match;
    const std::string text = worker.results();
    return std::regex_search(text, match, std::regex(fmt::format(R"(\[rank {}\] pid (\d+))", rank)))
               ? std::stoi(match[1])
               : 0;
  }

  const TempFolder temp_;
};

TEST_F(LaunchTrain, ASignalToOneRankStopsAllAtTheSameStep) {
  const auto worker = Start(3, kLong);
  ASSERT_TRUE(worker->WaitFor("hash step=5 ")) << worker->log();
  kill(PidOf(*worker, 2), SIGTERM);
  EXPECT_EQ(worker->Wait(), 75) << worker->log();
  const auto found = checkpoint::CheckpointFolder(Checkpoints(), 2).List();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].problem, "");
  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(worker->log(),
                HasSubstr(fmt::format("rank {}/3: stopped as rank 2 was asked to, after step={}",
                                      rank, found[0].step)));
  }
}

TEST_F(LaunchTrain, ASignalToTheLauncherStopsAll) {
  const auto worker = Start(2, kLong);
  ASSERT_TRUE(worker->WaitFor("hash step=5 ")) << worker->log();
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->Wait(), 75) << worker->log();
}

TEST_F(LaunchTrain, AKilledRankEndsTheOthersSoonAndIsBlamed) {
  const auto worker = Start(3, kLong);
  ASSERT_TRUE(worker->WaitFor("saved checkpoint")) << worker->log();
  kill(PidOf(*worker, 1), SIGKILL);
  EXPECT_EQ(worker->Wait(std::chrono::seconds(10)), 128 + SIGKILL) << worker->log();
  EXPECT_THAT(worker->log(), HasSubstr("rank 1 (local rank 1, pid "));
  EXPECT_THAT(worker->log(), HasSubstr("failed first: SIGKILL (signal 9)"));
}

TEST_F(LaunchTrain, ARestartGoesOnFromTheCheckpoint) {
  const std::string config = R"(
model: {name: mlp, hidden: 16}
train: {epochs: 30, batchSize: 40}
checkpoint: {everySteps: 20}
)";
  const auto worker = Start(2, config, "job", {"--max-restarts", "1"});
  ASSERT_TRUE(worker->WaitFor("saved checkpoint")) << worker->log();
  kill(PidOf(*worker, 0), SIGKILL);
  EXPECT_EQ(worker->Wait(), 0) << worker->log();
  EXPECT_THAT(worker->log(), HasSubstr("resuming step="));
  EXPECT_THAT(worker->results(), HasSubstr("finished after 300 steps"));
}

// Each takes a free port of its own.
TEST_F(LaunchTrain, TenJobsAtOnce) {
  std::vector<std::unique_ptr<Worker>> jobs;
  for (int job = 0; job < 10; ++job) {
    jobs.push_back(Start(2, "{model: {name: mlp, hidden: 8}, train: {epochs: 1, batchSize: 40}}",
                         std::to_string(job)));
  }
  for (const auto& job : jobs) {
    EXPECT_EQ(job->Wait(), 0) << job->log();
  }
}

TEST_F(LaunchTrain, LocalRanksServeProgressOnPortsInARow) {
  const int port = FreePort();
  auto options = std::vector<std::string>{"launch", "--nproc-per-node", "2",     "ddp-worker",
                                          "train",  "--config-env",     "CONFIG"};
  Worker worker(options, {{"PATH", "/usr/bin:/bin"},
                          {"CONFIG", kLong},
                          {"DDP_PROGRESS_PORT", std::to_string(port)},
                          {"DDP_DATA_DIR", (temp_.path() / "data").string()}});
  ASSERT_TRUE(worker.WaitFor("hash step=5 ")) << worker.log();
  EXPECT_THAT(worker.log(),
              HasSubstr(fmt::format("rank 0/2: serving /metrics and /progress port={}", port)));
  EXPECT_THAT(worker.log(),
              HasSubstr(fmt::format("rank 1/2: serving /metrics and /progress port={}", port + 1)));
}

}  // namespace
}  // namespace ddp::rt
