#include "operator/cli/status_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/ddpjob/testing.h"

namespace ddp::cli {
namespace {

using job::testing::kStart;
using job::testing::MakeJob;
using job::testing::Pod;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kColumns = 200;

StatusView Running(int replicas) {
  StatusView view;
  view.job = MakeJob(replicas);
  view.job.metadata.creation_time = kStart;
  api::Status& status = view.job.status;
  status.phase = api::Phase::kRunning;
  status.attempt = 2;
  status.start_time = kStart;
  status.running_time = kStart + seconds(10);
  status.replicas.ready = replicas;
  for (int rank = 0; rank < replicas; ++rank) {
    view.pods.emplace_back(Pod(2, rank).Running());
  }
  return view;
}

TEST(StatusView, AJobThatRuns) {
  StatusView view = Running(2);
  api::Progress& progress = view.job.status.progress.emplace();
  progress.step = 43;
  progress.total_steps = 100;
  progress.percent = 43;
  progress.slowest_rank = 1;
  progress.last_step_time = kStart + seconds(195);
  view.job.status.checkpoint = api::CheckpointState{40, kStart + seconds(180)};
  EXPECT_EQ(Describe(view, kStart + seconds(202), kColumns),
            "default/mnist: Running, attempt 2 for 3m12s; created 3m22s ago\n"
            "[==========>             ]  43%  step 43/100\n"
            "last step 7s ago, slowest is rank 1\n"
            "checkpoint: step 40, 22s ago\n"
            "pods: 2/2 ready\n"
            "  mnist-2-0  n1  ready  \n"
            "  mnist-2-1  n1  ready  \n");
}

TEST(StatusView, AJobThatFailed) {
  StatusView view = Running(2);
  api::Status& status = view.job.status;
  status.phase = api::Phase::kFailed;
  status.completion_time = kStart + hours(2);
  status.restarts.application = 3;
  status.restarts.infrastructure = 1;
  status.budget.counted = 3;
  status.replicas.ready = 0;
  status.replicas.failed = 1;
  view.pods = {Pod(2, 1).Exited(1).Saying("Error", "")};
  api::Failure failure;
  failure.attempt = 2;
  failure.rank = 1;
  failure.pod = "mnist-2-1";
  failure.node = "n1";
  failure.exit_code = 1;
  failure.reason = "Error";
  failure.message = "Traceback\nRuntimeError: \x1b[31mbroken\x1b[0m\n";
  failure.time = kStart + hours(2);
  status.failures = {failure};
  api::SetCondition(status, api::kConditionFailed, api::ConditionStatus::kTrue,
                    api::kReasonMaxRestarts, "all 3 restarts are used", 1, kStart);
  const std::string text = Describe(view, kStart + hours(2) + minutes(5), kColumns);
  for (const char* part :
       {"Failed, attempt 2, took 2h, ended 5m ago", "MaxRestartsExceeded: all 3 restarts are used",
        "pods: 0/2 ready, 1 failed", "mnist-2-1  n1  Error, exit code 1",
        "restarts: 4 (application 3, infrastructure 1); 3 of 3 used",
        "last failure: attempt 2, rank 1 (pod mnist-2-1, node n1) 5m ago: Error, exit code 1 "
        "[application]",
        "  | Traceback\n", "  | RuntimeError: "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "a log may not colour the terminal";
}

TEST(StatusView, OfManyPodsThoseInTrouble) {
  StatusView view = Running(64);
  view.pods[40] = Pod(2, 40).Saying("ImagePullBackOff", "no such image");
  view.job.status.replicas.ready = 63;
  const std::string text = Describe(view, kStart + minutes(1), kColumns);
  EXPECT_THAT(text,
              HasSubstr("pods: 63/64 ready\n  mnist-2-40  -  ImagePullBackOff  no such image"));
  EXPECT_THAT(text, Not(HasSubstr("mnist-2-0 ")));
}

TEST(StatusView, ConditionsEventsAndNotes) {
  StatusView view = Running(1);
  api::SetCondition(view.job.status, api::kConditionStalled, api::ConditionStatus::kTrue, "Stalled",
                    "no new step for 300 s", 1, kStart);
  api::SetCondition(view.job.status, api::kConditionProgressAvailable, api::ConditionStatus::kFalse,
                    "Unreachable", "connection refused", 1, kStart);
  view.events.push_back(ReadEvent({{"type", "Warning"},
                                   {"reason", "Restarting"},
                                   {"message", "rank 1 ended"},
                                   {"count", 3},
                                   {"lastTimestamp", base::FormatTime(kStart)}}));
  view.notes.emplace_back("its pods can't be listed");
  const std::string text = Describe(view, kStart + seconds(30), kColumns);
  EXPECT_THAT(text, HasSubstr("Stalled for 30s: no new step for 300 s"));
  EXPECT_THAT(text, HasSubstr("not ProgressAvailable for 30s: connection refused"));
  EXPECT_THAT(text, HasSubstr("  30s ago  Warning  Restarting  rank 1 ended (3 times)"));
  EXPECT_THAT(text, HasSubstr("(its pods can't be listed)"));
}

TEST(StatusView, NoLineIsWiderThanTheTerminal) {
  StatusView view = Running(3);
  view.pods[0] = Pod(2, 0).Saying("Unschedulable", std::string(300, 'x'));
  const std::string text = Describe(view, kStart, 60);
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    EXPECT_LE(end - at, 62U) << text.substr(at, end - at);
  }
}

TEST(Line, SaysItShortly) {
  StatusView view = Running(8);
  view.job.status.replicas.ready = 7;
  EXPECT_EQ(Line(view.job), "mnist: Running, attempt 2, 7/8 ready");
  view.job.status.phase = api::Phase::kSucceeded;
  EXPECT_EQ(Line(view.job), "mnist: Succeeded, attempt 2");
}

TEST(Age, HasTwoUnitsAtMost) {
  EXPECT_EQ(Age(seconds(-3)), "0s");
  EXPECT_EQ(Age(seconds(59)), "59s");
  EXPECT_EQ(Age(seconds(60)), "1m");
  EXPECT_EQ(Age(seconds(192)), "3m12s");
  EXPECT_EQ(Age(hours(2) + minutes(5) + seconds(9)), "2h5m");
  EXPECT_EQ(Age(hours(99)), "4d3h");
}

}  // namespace
}  // namespace ddp::cli
