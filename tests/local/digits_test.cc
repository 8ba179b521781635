// The sample, shortened, with the real ddp-worker: a killed rank costs time, not accuracy.
#include <gmock/gmock.h>

#include <algorithm>
#include <regex>

#include "operator/ddpjob/local/process_tree.h"
#include "tests/local/cli_under_test.h"

namespace ddp::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr seconds kTrainingPatience{120};

class Digits : public CliTest {
 protected:
  // Three epochs instead of all, and a checkpoint every few steps.
  Digits() {
    std::string sample = ReadFile(std::string(DDP_SOURCE_DIR) + "/manifests/samples/mnist.yaml");
    sample = std::regex_replace(sample, std::regex("epochs: [0-9]+"), "epochs: 3");
    sample = std::regex_replace(sample, std::regex("everySteps: [0-9]+"), "everySteps: 20");
    Write("job.yaml", sample);
  }

  static std::string FinalAccuracy(const std::string& output) {
    std::smatch found;
    return std::regex_search(output, found, std::regex("finished .*test accuracy [0-9.]+ %"))
               ? found.str()
               : "(none)";
  }

  // The process that runs a rank: below its supervisor, with RANK in its environment.
  static pid_t FindRank(pid_t program, int rank) {
    const std::string wanted = std::string("RANK=") + std::to_string(rank);
    for (const pid_t supervisor : job::ChildrenOf(program)) {
      for (const pid_t worker : job::ChildrenOf(supervisor)) {
        const std::string environment =
            '\0' + ReadFile("/proc/" + std::to_string(worker) + "/environ");
        if (environment.find('\0' + wanted + '\0') != std::string::npos) {
          return worker;
        }
      }
    }
    return 0;
  }
};

TEST_F(Digits, AKilledRankCostsTimeNotAccuracy) {
  Program undisturbed = Cli({"run", "-f", "job.yaml", "--fresh"});
  ASSERT_EQ(undisturbed.Wait(kTrainingPatience), 0) << undisturbed.Output();
  const std::string expected = FinalAccuracy(undisturbed.Output());
  EXPECT_NE(expected, "(none)") << undisturbed.Output();
  EXPECT_THAT(undisturbed.Output(), HasSubstr("\ncheckpoint: .ddp/mnist/checkpoints/"));
  for (const int rank : {0, 1}) {
    Program run = Cli({"run", "-f", "job.yaml", "--fresh"});
    run.Expect("epoch 2/3", kTrainingPatience);
    const pid_t victim = FindRank(run.pid(), rank);
    ASSERT_GT(victim, 0) << run.Output();
    kill(victim, SIGKILL);
    EXPECT_EQ(run.Wait(kTrainingPatience), 0) << run.Output();
    EXPECT_EQ(FinalAccuracy(run.Output()), expected);
    EXPECT_THAT(run.Output(), HasSubstr("2 ranks, 1 restart,"));
  }
}

}  // namespace
}  // namespace ddp::testing
