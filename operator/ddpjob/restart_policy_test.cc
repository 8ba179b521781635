#include "operator/ddpjob/restart_policy.h"

#include <gtest/gtest.h>

#include "operator/ddpjob/provisional.h"
#include "operator/ddpjob/startup_policy.h"
#include "operator/ddpjob/testing.h"

namespace ddp::job {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::kStart;
using testing::Pod;
using Kind = RestartDecision::Kind;

const Verdict kCounted{FailureAction::kRestart, api::Cause::kApplication, "Error", false};
const Verdict kMaybeNode{FailureAction::kRestart, api::Cause::kApplication, "Error", true};
const Verdict kUncounted{FailureAction::kRestartUncounted, api::Cause::kPreemption, "P", false};
const Verdict kUser{FailureAction::kFail, api::Cause::kApplication, "UserError", false};

struct Case {
  const char* name;
  Verdict verdict;
  api::Budget before;
  std::optional<int> ran_minutes;
  Kind kind;
  api::Budget after;
  int delay_seconds;
};

class RestartTable : public ::testing::TestWithParam<Case> {};

TEST_P(RestartTable, Holds) {
  const Case& c = GetParam();
  api::Restart rules;
  rules.max_restarts = 3;
  rules.max_uncounted_restarts = 20;
  rules.max_backoff_seconds = 10;
  const TimePoint now = kStart + minutes(60);
  const auto running =
      c.ran_minutes ? std::optional<TimePoint>(now - minutes(*c.ran_minutes)) : std::nullopt;
  const RestartDecision decision =
      DecideRestart(rules, RenewedBudget(c.before, {}, running, now), c.verdict, true, now);
  EXPECT_EQ(decision.kind, c.kind);
  EXPECT_EQ(decision.budget, c.after);
  if (c.kind == Kind::kRestart) {
    EXPECT_EQ(decision.next_attempt_time - now, seconds(c.delay_seconds));
  }
  if (c.kind == Kind::kWait) {
    EXPECT_EQ(decision.give_up_time - now, seconds(60));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policy, RestartTable,
    ::testing::Values(Case{"first_is_immediate", kCounted, {0, 0}, 1, Kind::kRestart, {1, 0}, 0},
                      Case{"second_waits", kCounted, {1, 0}, 1, Kind::kRestart, {2, 0}, 1},
                      Case{"third_waits_longer", kCounted, {2, 0}, 1, Kind::kRestart, {3, 0}, 2},
                      Case{"budget_spent", kCounted, {3, 0}, 1, Kind::kFail, {3, 0}, 0},
                      Case{"perhaps_a_node", kMaybeNode, {3, 0}, 1, Kind::kWait, {3, 0}, 0},
                      Case{"renewed", kCounted, {3, 5}, 10, Kind::kRestart, {1, 0}, 0},
                      Case{"never_ran", kCounted, {3, 0}, {}, Kind::kFail, {3, 0}, 0},
                      Case{"uncounted", kUncounted, {3, 0}, 1, Kind::kRestart, {3, 1}, 4},
                      Case{"capped", kUncounted, {3, 9}, 1, Kind::kRestart, {3, 10}, 10},
                      Case{"uncounted_spent", kUncounted, {0, 20}, 1, Kind::kFail, {0, 20}, 0},
                      Case{"user_error", kUser, {0, 0}, 1, Kind::kFail, {0, 0}, 0}),
    [](const auto& c) { return c.param.name; });

TEST(DecideRestart, DoesNotWaitForNodesThatCannotFail) {
  api::Restart rules;
  rules.max_restarts = 0;
  EXPECT_EQ(DecideRestart(rules, {}, kMaybeNode, false, kStart).kind, Kind::kFail);
}

TEST(StartupTrouble, IsTheFirstRanksWords) {
  const PodRecord fine = Pod(1, 0).Running();
  const PodRecord stuck =
      Pod(1, 1).Saying("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.");
  const PodRecord also = Pod(1, 2).Saying("Unschedulable", "x");
  EXPECT_EQ(FindStartupTrouble({&fine, nullptr}), std::nullopt);
  const auto trouble = FindStartupTrouble({&fine, &stuck, &also, nullptr});
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->reason, "Unschedulable");
  EXPECT_EQ(trouble->message,
            "rank 1 (pod mnist-1-1) and 1 more: 0/3 nodes are available: 3 Insufficient cpu.");
}

api::Status BookedFailure(int exit_code) {
  api::Status status;
  status.attempt = 1;
  status.restarts.application = 1;
  status.budget.counted = 1;
  api::Failure& failure = status.failures.emplace_back();
  failure.attempt = 1;
  failure.rank = 1;
  failure.pod = "mnist-1-1";
  failure.pod_uid = "mnist-1-1-uid";
  failure.exit_code = exit_code;
  failure.time = kStart;
  return status;
}

TEST(MoveCauses, MovesACountWhenThePodProvesIt) {
  api::Status status = BookedFailure(137);
  const std::vector<PodRecord> pods = {Pod(1, 1).Exited(137).Disrupted("DeletionByTaintManager")};
  EXPECT_TRUE(MoveCauses(pods, {}, status, kStart + minutes(5)));
  EXPECT_EQ(status.restarts, (api::RestartCounts{.infrastructure = 1}));
  EXPECT_EQ(status.budget, (api::Budget{0, 1}));
  EXPECT_EQ(status.failures[0].reason, "DeletionByTaintManager");
  EXPECT_FALSE(MoveCauses(pods, {}, status, kStart + minutes(5))) << "moves once";
}

TEST(MoveCauses, LeavesWhatIsProvenOtherwiseOrTooOld) {
  const std::vector<PodRecord> marked = {Pod(1, 1).Exited(1).Disrupted("PodGC")};
  api::Status crashed = BookedFailure(1);
  EXPECT_FALSE(MoveCauses(marked, {}, crashed, kStart));
  api::Status old = BookedFailure(137);
  EXPECT_FALSE(MoveCauses(marked, {}, old, kStart + minutes(7)));
  api::Status other = BookedFailure(137);
  EXPECT_FALSE(MoveCauses({Pod(1, 0).Running().Disrupted("PodGC")}, {}, other, kStart));
}

TEST(MoveCauses, AnUnwellNodeIsAProof) {
  api::Status killed = BookedFailure(137);
  killed.failures[0].node = "n1";
  EXPECT_FALSE(MoveCauses({}, {{"n1", {.time = kStart}}}, killed, kStart));
  EXPECT_TRUE(MoveCauses({}, {{"n1", {.time = kStart, .unwell = true}}}, killed, kStart));
  EXPECT_EQ(killed.failures[0].reason, "NodeLost");
  EXPECT_EQ(killed.restarts, (api::RestartCounts{.infrastructure = 1}));
}

TEST(MoveCauses, AStallIsProvenByTheNodeOfAPodThatDoesNotGo) {
  api::Status status = BookedFailure(0);
  status.failures[0].exit_code.reset();
  status.failures[0].cause = api::Cause::kStall;
  status.restarts = {.stall = 1};
  PodRecord dead = Pod(1, 3).Running().Deleted(kStart);
  dead.node = "n3";
  EXPECT_TRUE(MoveCauses({dead}, {{"n3", {.time = kStart, .unwell = true}}}, status, kStart));
  EXPECT_EQ(status.restarts, (api::RestartCounts{.infrastructure = 1}));
  EXPECT_EQ(status.budget, (api::Budget{0, 1}));
}

TEST(MoveCauses, ALostPeerIsProvenByAnyPodOfItsAttempt) {
  api::Status status = BookedFailure(69);
  EXPECT_TRUE(
      MoveCauses({Pod(1, 0).Running().Disrupted("PreemptionByScheduler")}, {}, status, kStart));
  EXPECT_EQ(status.restarts, (api::RestartCounts{.preemption = 1}));
}

}  // namespace
}  // namespace ddp::job
