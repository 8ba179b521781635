// A rank that lives but does not get on: found within its phase's deadline, named by the others,
// and told from one that merely evaluates for long.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/base/temp_folder_test.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

using testing::HasSubstr;

constexpr const char* kLong = R"(
model: {name: mlp, hidden: 16}
train: {epochs: 1000000, batchSize: 40, logHashes: true}
checkpoint: {everySteps: 0}
distributed: {timeoutSeconds: 1, evaluationTimeoutSeconds: 60, checkpointTimeoutSeconds: 60}
)";

// The first thread of a process is the one that trains. Only that one is stopped: the others go on
// to beat, to serve and to watch.
class Stuck : public testing::TestWithParam<int> {};

TEST_P(Stuck, ATrainingThreadThatHangsIsEndedAndNamed) {
  const TempFolder temp;
  Job job(temp.path(), 2, kLong);
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("hash step=5 ")) << job.logs();
  const int stuck = GetParam();
  if (ptrace(PTRACE_SEIZE, job.rank(stuck).pid(), nullptr, nullptr) != 0) {
    GTEST_SKIP() << "no right to trace a process";
  }
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, job.rank(stuck).pid(), nullptr, nullptr), 0);
  Worker& other = job.rank(1 - stuck);
  EXPECT_EQ(other.Wait(std::chrono::seconds(10)), 69) << job.logs();
  EXPECT_THAT(other.log(), testing::ContainsRegex(fmt::format("rank(\\(s\\))? {}", stuck)));
  EXPECT_EQ(job.rank(stuck).Wait(std::chrono::seconds(20)), 70) << job.logs();
  EXPECT_THAT(job.rank(stuck).log(),
              testing::ContainsRegex("stuck for [0-9.]+ s after step [0-9]+, training"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Stuck, testing::Values(0, 1));

std::string PhaseOf(const Worker& worker) {
  const std::string answer = HttpGet(ProgressPort(worker.log()), "/progress");
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos
             ? ""
             : nlohmann::json::parse(answer.substr(body))["phase"].get<std::string>();
}

TEST(Stuck, AnEvaluationMayTakeLongerThanAStep) {
  const TempFolder temp;
  WriteDigits(temp.path() / "data" / "digits", 40, 30'000);
  Job job(temp.path(), 2, kLong);
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("hash step=1 ")) << job.logs();
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (PhaseOf(job.rank(0)) != "evaluating") {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << job.logs();
  }
  job.rank(0).Signal(SIGSTOP);
  // Not to wait for something: three times what a step may take.
  std::this_thread::sleep_for(std::chrono::seconds(3));
  job.rank(0).Signal(SIGCONT);
  EXPECT_TRUE(job.rank(0).WaitFor("hash step=20 ")) << job.logs();
  EXPECT_TRUE(job.rank(1).WaitFor("hash step=20 ")) << job.logs();
}

}  // namespace
}  // namespace ddp::rt
