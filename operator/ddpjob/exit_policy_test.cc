#include "operator/ddpjob/exit_policy.h"

#include <gtest/gtest.h>

#include "operator/ddpjob/first_cause.h"
#include "operator/ddpjob/testing.h"

namespace ddp::job {
namespace {

using api::Cause;
using testing::kStart;
using testing::Pod;
using enum FailureAction;

struct Case {
  const char* name;
  PodRecord pod;
  FailureAction action;
  Cause cause;
  const char* reason;
  bool provisional;
};

class JudgePodTable : public ::testing::TestWithParam<Case> {};

TEST_P(JudgePodTable, Holds) {
  const Case& c = GetParam();
  const Verdict verdict = JudgePod(c.pod);
  EXPECT_EQ(verdict.action, c.action);
  EXPECT_EQ(verdict.cause, c.cause);
  EXPECT_EQ(verdict.reason, c.reason);
  EXPECT_EQ(verdict.provisional, c.provisional);
}

INSTANTIATE_TEST_SUITE_P(
    ExitCodes, JudgePodTable,
    ::testing::Values(
        Case{"usage", Pod(1, 0).Exited(64), kFail, Cause::kApplication, "UserError", false},
        Case{"data", Pod(1, 0).Exited(65), kFail, Cause::kApplication, "UserError", false},
        Case{"no_input", Pod(1, 0).Exited(66), kFail, Cause::kApplication, "UserError", false},
        Case{"config", Pod(1, 0).Exited(78), kFail, Cause::kApplication, "UserError", false},
        Case{"config_marked", Pod(1, 0).Exited(78).Disrupted("EvictionByEvictionAPI"), kFail,
             Cause::kApplication, "UserError", false},
        Case{"stopped", Pod(1, 0).Exited(75), kRestartUncounted, Cause::kPreemption,
             "StoppedOnRequest", false},
        Case{"peer", Pod(1, 0).Exited(69), kRestart, Cause::kApplication, "PeerLost", true},
        Case{"software", Pod(1, 0).Exited(70), kRestart, Cause::kApplication, "Error", false},
        Case{"plain", Pod(1, 0).Exited(1), kRestart, Cause::kApplication, "Error", false},
        Case{"crash", Pod(1, 0).Exited(139), kRestart, Cause::kApplication, "Error", false},
        Case{"killed", Pod(1, 0).Exited(137), kRestart, Cause::kApplication, "Error", true},
        Case{"terminated", Pod(1, 0).Exited(143), kRestart, Cause::kApplication, "Error", true},
        Case{"oom", Pod(1, 0).Exited(137).Saying("OOMKilled", ""), kRestart, Cause::kApplication,
             "OOMKilled", false},
        Case{"preempted", Pod(1, 0).Exited(143).Disrupted("PreemptionByScheduler"),
             kRestartUncounted, Cause::kPreemption, "PreemptionByScheduler", false},
        Case{"tainted", Pod(1, 0).Exited(137).Disrupted("DeletionByTaintManager"),
             kRestartUncounted, Cause::kInfrastructure, "DeletionByTaintManager", false},
        Case{"deleted", Pod(1, 0).Running().Deleted(kStart), kRestartUncounted,
             Cause::kInfrastructure, "PodDeleted", false},
        Case{"gone", Pod(1, 0).Failed("PodDeleted"), kRestartUncounted, Cause::kInfrastructure,
             "PodDeleted", false},
        Case{"kueue_preempted",
             Pod(1, 0).Running().Deleted(kStart).Disrupted("WorkloadEvictedDueToPreempted"),
             kRestartUncounted, Cause::kPreemption, "WorkloadEvictedDueToPreempted", false},
        Case{"shutdown", Pod(1, 0).Failed("Terminated"), kRestartUncounted, Cause::kInfrastructure,
             "Terminated", false},
        Case{"node_shutdown", Pod(1, 0).Failed("NodeShutdown"), kRestartUncounted,
             Cause::kInfrastructure, "NodeShutdown", false},
        Case{"kubelet_preempted", Pod(1, 0).Failed("Preempting"), kRestartUncounted,
             Cause::kPreemption, "Preempting", false},
        Case{"evicted", Pod(1, 0).Exited(137).Saying("Evicted", "disk"), kRestartUncounted,
             Cause::kInfrastructure, "Evicted", false},
        Case{"refused", Pod(1, 0).Failed("OutOfcpu"), kRestartUncounted, Cause::kInfrastructure,
             "OutOfcpu", false},
        Case{"deadline", Pod(1, 0).Failed("DeadlineExceeded"), kRestart, Cause::kApplication,
             "DeadlineExceeded", false}),
    [](const auto& c) { return c.param.name; });

TEST(JudgeAttempt, IsNeverTheApplicationsFaultBeforeAllRan) {
  const Verdict verdict = JudgeAttempt(Pod(1, 0).Exited(1), false, false);
  EXPECT_EQ(verdict.action, kRestartUncounted);
  EXPECT_EQ(verdict.cause, Cause::kStartup);
  EXPECT_EQ(JudgeAttempt(Pod(1, 0).Exited(78), false, false).action, kFail);
}

struct RuleCase {
  const char* name;
  api::RestartRule rule;
  PodRecord pod;
  FailureAction action;
  Cause cause;
};

class RuleTable : public ::testing::TestWithParam<RuleCase> {};

TEST_P(RuleTable, Holds) {
  const RuleCase& c = GetParam();
  const Verdict verdict = JudgeAttempt(c.pod, false, true, {c.rule});
  EXPECT_EQ(verdict.action, c.action);
  EXPECT_EQ(verdict.cause, c.cause);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RuleTable,
    ::testing::Values(
        RuleCase{"code", {{3}, {}, kFail}, Pod(1, 0).Exited(3), kFail, Cause::kApplication},
        RuleCase{
            "other_code", {{3}, {}, kFail}, Pod(1, 0).Exited(4), kRestart, Cause::kApplication},
        RuleCase{"uncounted",
                 {{3}, {}, kRestartUncounted},
                 Pod(1, 0).Exited(3),
                 kRestartUncounted,
                 Cause::kInfrastructure},
        RuleCase{"user_error_tried_again",
                 {{65}, {}, kRestart},
                 Pod(1, 0).Exited(65),
                 kRestart,
                 Cause::kApplication},
        RuleCase{"reason",
                 {{}, {"OOMKilled"}, kFail},
                 Pod(1, 0).Exited(137).Saying("OOMKilled", ""),
                 kFail,
                 Cause::kApplication},
        RuleCase{"code_of_a_drained_pod",
                 {{143}, {}, kFail},
                 Pod(1, 0).Exited(143).Disrupted("EvictionByEvictionAPI"),
                 kRestartUncounted,
                 Cause::kInfrastructure},
        RuleCase{"reason_of_a_drained_pod",
                 {{}, {"EvictionByEvictionAPI"}, kRestart},
                 Pod(1, 0).Exited(143).Disrupted("EvictionByEvictionAPI"),
                 kRestart,
                 Cause::kApplication}),
    [](const auto& c) { return c.param.name; });

TEST(ApplyRules, TheFirstThatMatchesDecides) {
  const Verdict verdict =
      JudgeAttempt(Pod(1, 0).Exited(3), false, true,
                   {{{4}, {}, kFail}, {{3}, {}, kRestartUncounted}, {{3}, {}, kFail}});
  EXPECT_EQ(verdict.action, kRestartUncounted);
}

TEST(JudgeAttempt, NamesAFailedRendezvous) {
  const Verdict verdict = JudgeAttempt(Pod(1, 0).Exited(69), true, true);
  EXPECT_EQ(verdict.reason, api::kReasonRendezvousFailed);
  EXPECT_EQ(verdict.action, kRestart);
  EXPECT_FALSE(verdict.provisional);
}

TEST(DescribeEnd, IsASentencePart) {
  EXPECT_EQ(DescribeEnd(Pod(1, 0).Exited(1)), "exited with code 1");
  EXPECT_EQ(DescribeEnd(Pod(1, 0).Exited(137).Saying("OOMKilled", "")),
            "exited with code 137 (SIGKILL), OOMKilled");
  EXPECT_EQ(DescribeEnd(Pod(1, 0).Failed("PodDeleted")), "was deleted");
  EXPECT_EQ(DescribeEnd(Pod(1, 0).Running().Deleted(kStart)), "was deleted");
  EXPECT_EQ(DescribeEnd(Pod(1, 0).Failed("Evicted")), "failed: Evicted");
}

TEST(FirstCause, PrefersMarksThenCodesThenTimeThenRank) {
  const auto later = kStart + std::chrono::seconds(1);
  struct Choice {
    std::vector<PodRecord> failed;
    size_t first;
  };
  for (const auto& [failed, first] :
       {Choice{{Pod(1, 0).Exited(69), Pod(1, 1).Exited(137, later)}, 1},
        Choice{{Pod(1, 0).Exited(1), Pod(1, 1).Exited(143, later).Disrupted("PodGC")}, 1},
        Choice{{Pod(1, 0).Exited(143), Pod(1, 1).Exited(1, later)}, 1},
        Choice{{Pod(1, 0).Exited(1, later), Pod(1, 1).Exited(1)}, 1},
        Choice{{Pod(1, 1).Exited(1), Pod(1, 0).Exited(1)}, 1},
        Choice{{Pod(1, 0).Exited(1), Pod(1, 1).Failed("PodDeleted")}, 1},
        Choice{{Pod(1, 0).Exited(69), Pod(1, 1).Exited(69, later)}, 0}}) {
    EXPECT_EQ(FirstCause(failed), first);
  }
}

}  // namespace
}  // namespace ddp::job
