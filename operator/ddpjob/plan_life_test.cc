// The plan over a job's life: suspend, deadline, TTL, cleanup, requests, startup, stalls, nodes.
#include <gmock/gmock.h>

#include "operator/ddpjob/plan_testing.h"

namespace ddp::job {
namespace {

using api::Phase;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using testing::EditPod;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kStart;
using testing::PlanTest;
using testing::Pod;

// ---- suspend ------------------------------------------------------------------------------------

TEST_F(PlanTest, AJobThatIsCreatedSuspendedHasNoPodsEver) {
  world_.job.spec.suspend = true;
  EXPECT_THAT(Step().actions, IsEmpty());
  EXPECT_EQ(status().phase, Phase::kSuspended);
  EXPECT_EQ(State("Suspended"), "True Suspended");
  EXPECT_EQ(status().attempt, 0);
  EXPECT_FALSE(status().start_time);
  EXPECT_EQ(Step(minutes(10)).urgency, Urgency::kNone);
  world_.job.spec.suspend = false;
  EXPECT_THAT(Step().actions, ElementsAre(Action(CreatePods{1, {0, 1}})));
  EXPECT_EQ(State("Suspended"), "False Resumed");
  EXPECT_EQ(status().phase, Phase::kPending);
}

TEST_F(PlanTest, SuspendingStopsAllPodsWithTheirOwnGraceAndResumingBeginsANewAttempt) {
  StartRunning();
  world_.job.spec.suspend = true;
  EXPECT_THAT(Step().actions, ElementsAre(Action(DeletePods{1, false, std::nullopt})));
  EXPECT_EQ(status().phase, Phase::kSuspended);
  world_.pods[0] = Pod(1, 0).Running().Deleted(now_ + seconds(30));
  world_.pods[1] = Pod(1, 1).Exited(75, now_);  // saved, then ended: not a failure
  EXPECT_THAT(Step().actions, ElementsAre(Action(DeletePods{1, false, std::nullopt})));
  world_.pods.pop_back();
  world_.job.spec.suspend = false;
  const Plan waiting = Step(seconds(1));
  EXPECT_THAT(waiting.actions, IsEmpty());
  EXPECT_EQ(waiting.wake_up, now_ + seconds(31));
  EXPECT_EQ(status().phase, Phase::kSuspended);
  EXPECT_EQ(Reason("Progressing"), "Resumed");
  world_.pods.clear();
  EXPECT_THAT(Step(seconds(1)).actions, ElementsAre(Action(CreatePods{2, {0, 1}})));
  EXPECT_EQ(status().attempt, 2) << "the attempt counts suspends";
  EXPECT_EQ(status().restarts.Total(), 0);
  EXPECT_EQ(status().start_time, now_);
  EXPECT_THAT(status().failures, IsEmpty());
}

TEST_F(PlanTest, SuspendingEndsAWaitForTheNextAttempt) {
  StartRunning();
  world_.pods = {Pod(1, 0).Exited(1, now_), Pod(1, 1).Exited(69, now_)};
  Step();
  ASSERT_EQ(status().phase, Phase::kRestarting);
  world_.job.spec.suspend = true;
  EXPECT_THAT(Step().actions, ElementsAre(Action(DeletePods{1, false, 5})));
  EXPECT_EQ(status().phase, Phase::kSuspended);
  EXPECT_EQ(status().restarts.application, 1);
}

TEST_F(PlanTest, WhatSucceededBeforeItWasSuspendedHasSucceeded) {
  StartRunning();
  world_.pods = {Pod(1, 0).Exited(0), Pod(1, 1).Exited(0)};
  world_.job.spec.suspend = true;
  Step();
  EXPECT_EQ(status().phase, Phase::kSucceeded);
}

TEST_F(PlanTest, AFinishedJobIsNotSuspended) {
  StartRunning();
  world_.pods[0] = Pod(1, 0).Exited(65, now_);
  Step();
  world_.job.spec.suspend = true;
  Step();
  EXPECT_EQ(status().phase, Phase::kFailed);
}

// ---- deadline, TTL, cleanup, managedBy ----------------------------------------------------------

TEST_F(PlanTest, ADeadlineFailsAQuietJob) {
  world_.job.spec.active_deadline_seconds = 5;
  StartRunning();
  EXPECT_EQ(Step().wake_up, kStart + seconds(5));
  const Plan plan = Step(seconds(5));
  EXPECT_EQ(status().phase, Phase::kFailed);
  EXPECT_EQ(Reason("Failed"), "DeadlineExceeded");
  EXPECT_THAT(plan.actions, ElementsAre(Action(DeletePods{1, true, std::nullopt})))
      << "it did not fail by itself: its own grace";
}

TEST_F(PlanTest, ADeadlineAlsoEndsAWait) {
  world_.job.spec.active_deadline_seconds = 30;
  world_.job.spec.restart.max_restarts = 0;
  StartRunning();
  world_.pods[1] = Pod(1, 1).Exited(137, now_);
  EXPECT_EQ(Step().wake_up, kStart + seconds(30)) << "sooner than the wait for news of the node";
  Step(seconds(30));
  EXPECT_EQ(Reason("Failed"), "DeadlineExceeded");
}

TEST_F(PlanTest, TheDeadlineCountsAnewAfterASuspend) {
  world_.job.spec.active_deadline_seconds = 60;
  StartRunning();
  world_.job.spec.suspend = true;
  Step();
  world_.pods.clear();
  Step(minutes(60));
  EXPECT_EQ(status().phase, Phase::kSuspended);
  world_.job.spec.suspend = false;
  EXPECT_EQ(Step().wake_up, now_ + seconds(60));
}

TEST_F(PlanTest, AFinishedJobIsDeletedAfterItsTimeToLive) {
  world_.job.spec.ttl_seconds_after_finished = 10;
  StartRunning();
  world_.pods = {Pod(1, 0).Exited(0), Pod(1, 1).Exited(0)};
  EXPECT_EQ(Step().wake_up, now_ + seconds(10));
  EXPECT_THAT(Step(seconds(9)).actions, IsEmpty());
  const Plan plan = Step(seconds(1));
  EXPECT_THAT(plan.actions, ElementsAre(Action(DeleteJob{})));
  EXPECT_EQ(plan.urgency, Urgency::kNone);
}

TEST_F(PlanTest, ATimeToLiveOfZeroDeletesOnceTheEndIsWritten) {
  world_.job.spec.ttl_seconds_after_finished = 0;
  StartRunning();
  world_.pods = {Pod(1, 0).Exited(0), Pod(1, 1).Exited(0)};
  const Plan plan = Step();
  EXPECT_EQ(plan.urgency, Urgency::kNow) << "status first, then the action";
  EXPECT_THAT(plan.actions, ElementsAre(Action(DeleteJob{})));
}

TEST_F(PlanTest, ASuspendedJobHasNoTimeToLive) {
  world_.job.spec.ttl_seconds_after_finished = 0;
  world_.job.spec.suspend = true;
  Step();
  EXPECT_THAT(Step(minutes(60)).actions, IsEmpty());
  EXPECT_EQ(status().phase, Phase::kSuspended);
}

TEST_F(PlanTest, AClockThatWasAheadOnlyDelaysTheDeletion) {
  world_.job.spec.ttl_seconds_after_finished = 10;
  StartRunning();
  world_.pods = {Pod(1, 0).Exited(0), Pod(1, 1).Exited(0)};
  Step();
  const TimePoint due = now_ + seconds(10);
  EXPECT_EQ(Step(-minutes(5)).wake_up, due);
}

struct CleanCase {
  api::CleanPodPolicy policy;
  std::vector<Action> actions;
};

class CleanPodTest : public PlanTest, public ::testing::WithParamInterface<CleanCase> {};

TEST_P(CleanPodTest, DecidesWhatStaysAtTheEnd) {
  world_.job.spec.clean_pod_policy = GetParam().policy;
  StartRunning();
  world_.pods[0] = Pod(1, 0).Exited(65, now_);
  const Plan plan = Step();
  EXPECT_EQ(status().phase, Phase::kFailed);
  EXPECT_EQ(plan.actions, GetParam().actions);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, CleanPodTest,
    ::testing::Values(CleanCase{api::CleanPodPolicy::kNone, {}},
                      CleanCase{api::CleanPodPolicy::kRunning, {DeletePods{1, true, 5}}},
                      CleanCase{api::CleanPodPolicy::kAll, {DeletePods{1, false, 5}}}));

TEST_F(PlanTest, APodThatHasEndedIsLeftToItsKubeletForItsLog) {
  StartRunning();
  world_.pods = {Pod(1, 0).Exited(0).Unconfirmed(), Pod(1, 1).Exited(0).Unconfirmed()};
  const Plan plan = Step();
  EXPECT_EQ(status().phase, Phase::kSucceeded);
  EXPECT_THAT(plan.actions, IsEmpty());
  world_.pods[1] = Pod(1, 1).Exited(0).Unconfirmed(/*others_run=*/true);
  EXPECT_THAT(Step().actions, ElementsAre(Action(DeletePods{1, true, std::nullopt})));
}

TEST_F(PlanTest, SomebodyElsesJobIsLeftAlone) {
  world_.job.spec.managed_by = "example.com/other";
  const Plan plan = Step();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(plan.urgency, Urgency::kNone);
  world_.job.spec.managed_by = api::kManagedBy;
  EXPECT_THAT(Step().actions, ElementsAre(Action(CreatePods{1, {0, 1}})));
}

// ---- a restart on request -----------------------------------------------------------------------

TEST_F(PlanTest, ARequestRestartsOnceWithoutCounting) {
  world_.job.metadata.creation_time = kStart;
  StartRunning();
  world_.job.metadata.restart_requested = kStart + seconds(5);
  const Plan plan = Step(seconds(10));
  EXPECT_EQ(status().phase, Phase::kRestarting);
  EXPECT_EQ(status().restart_request_time, kStart + seconds(5));
  EXPECT_THAT(plan.actions, ElementsAre(Action(DeletePods{1, true, std::nullopt})))
      << "survivors may save";
  world_.pods.clear();
  Step(seconds(1));
  EXPECT_EQ(status().attempt, 2);
  EXPECT_EQ(status().restarts.Total(), 0);
  world_.pods = {Pod(2, 0).Running(), Pod(2, 1).Running()};
  Step(minutes(1));
  EXPECT_EQ(status().phase, Phase::kRunning) << "one request, one restart";
}

TEST_F(PlanTest, AnOldRequestIsNone) {
  world_.job.metadata.creation_time = kStart;
  world_.job.metadata.restart_requested = kStart - seconds(5);  // of a manifest that was copied
  StartRunning();
  EXPECT_FALSE(status().restart_request_time);
}

TEST_F(PlanTest, ARequestToASuspendedJobIsSettledBySuspending) {
  world_.job.metadata.creation_time = kStart;
  world_.job.spec.suspend = true;
  Step();
  world_.job.metadata.restart_requested = kStart + seconds(5);
  Step(seconds(10));
  EXPECT_EQ(status().phase, Phase::kSuspended);
  EXPECT_EQ(status().restart_request_time, kStart + seconds(5));
}

// ---- startup ------------------------------------------------------------------------------------

TEST_F(PlanTest, AnAttemptThatDoesNotStartInTimeIsReleased) {
  Step();
  world_.pods = {Pod(1, 0).Running(), Pod(1, 1).Saying("Unschedulable", "0/3 nodes are available")};
  const Plan waiting = Step(minutes(60));
  EXPECT_EQ(waiting.wake_up, now_ + seconds(600)) << "from the first pod with a node";
  const Plan plan = Step(seconds(600));
  EXPECT_EQ(status().phase, Phase::kRestarting);
  EXPECT_EQ(status().restarts, (api::RestartCounts{.startup = 1}));
  EXPECT_EQ(status().failures[0].reason, "StartupTimeout");
  EXPECT_EQ(status().failures[0].pod, "mnist-1-1");
  EXPECT_THAT(status().failures[0].message, HasSubstr("0/3 nodes are available"));
  EXPECT_THAT(plan.actions, ElementsAre(Action(DeletePods{1, true, 5})));
}

TEST_F(PlanTest, WithoutAnyNodeItWaitsForEver) {
  Step();
  world_.pods = {Pod(1, 0).Saying("Unschedulable", "full"), Pod(1, 1)};
  EXPECT_FALSE(Step(minutes(600)).wake_up);
  EXPECT_EQ(status().phase, Phase::kPending);
  EXPECT_EQ(Reason("Progressing"), "Unschedulable");
}

TEST_F(PlanTest, NoStartupTimeoutWhenItIsOff) {
  world_.job.spec.startup_timeout_seconds = 0;
  Step();
  world_.pods = {Pod(1, 0).Running(), Pod(1, 1)};
  Step();
  EXPECT_FALSE(Step(minutes(600)).wake_up);
  EXPECT_EQ(status().phase, Phase::kStarting);
}

// ---- progress and stalls ------------------------------------------------------------------------

TEST_F(PlanTest, ProgressIsACountNotAnEvent) {
  StartRunning();
  Tell(7, 5);
  Step();
  EXPECT_EQ(State("ProgressAvailable"), "True Pulled");
  EXPECT_EQ(status().progress->step, 7);
  EXPECT_EQ(status().checkpoint->step, 5);
  now_ += seconds(10);
  Tell(9);
  EXPECT_EQ(Step().urgency, Urgency::kCounts);
  EXPECT_EQ(status().step_time, now_);
  EXPECT_EQ(status().checkpoint->step, 5) << "an answer that tells of none changes nothing";
}

TEST_F(PlanTest, ARankThatCanNotBeAskedIsSaidAndIsNoStall) {
  world_.job.spec.progress.stall_timeout_seconds = 60;
  StartRunning();
  world_.progress = ProgressPull{.attempt = 1, .ok = false, .error = "refused", .time = now_};
  Step();
  EXPECT_EQ(State("ProgressAvailable"), "False Unreachable");
  EXPECT_EQ(Message("ProgressAvailable"), "refused");
  now_ += minutes(5);
  world_.progress->time = now_;
  Step();
  EXPECT_EQ(status().phase, Phase::kRunning);
}

TEST_F(PlanTest, HostNetworkIsNotAsked) {
  EditPod(world_.job.spec, [](json::Json& pod) { pod["hostNetwork"] = true; });
  StartRunning();
  EXPECT_EQ(State("ProgressAvailable"), "False HostNetwork");
}

TEST_F(PlanTest, AStallRestartsAndCounts) {
  world_.job.spec.progress.stall_timeout_seconds = 60;
  StartRunning();
  Tell(7);
  EXPECT_EQ(Step().wake_up, now_ + seconds(60));
  now_ += seconds(60);
  Tell(7);
  world_.progress->progress.slowest_rank = 1;
  const Plan plan = Step();
  EXPECT_EQ(status().phase, Phase::kRestarting);
  EXPECT_EQ(status().restarts, (api::RestartCounts{.stall = 1}));
  EXPECT_EQ(status().budget.counted, 1);
  EXPECT_EQ(status().failures[0].rank, 1);
  EXPECT_EQ(State("Stalled"), "True Stalled");
  EXPECT_THAT(Message("Progressing"), HasSubstr("rank 1 (pod mnist-1-1) stands still: no step"));
  EXPECT_THAT(plan.actions, ElementsAre(Action(DeletePods{1, true, 5})));
  world_.pods.clear();
  Step();
  EXPECT_EQ(State("Stalled"), "False Restarting");
}

TEST_F(PlanTest, AStallIsReportedOnceWhereThatIsAsked) {
  world_.job.spec.progress = {.stall_timeout_seconds = 60, .on_stall = api::OnStall::kReport};
  StartRunning();
  Tell(7);
  Step();
  now_ += seconds(60);
  Tell(7);
  EXPECT_THAT(Step().events, Contains(Field(&Event::reason, "Stalled")));
  EXPECT_EQ(State("Stalled"), "True Stalled");
  EXPECT_EQ(status().phase, Phase::kRunning);
  now_ += seconds(10);
  Tell(7);
  EXPECT_THAT(Step().events, IsEmpty());
  Tell(8);
  Step();
  EXPECT_EQ(State("Stalled"), "False NewStep");
}

TEST_F(PlanTest, AStallFailsWhereThatIsAsked) {
  world_.job.spec.progress = {.stall_timeout_seconds = 60, .on_stall = api::OnStall::kFail};
  StartRunning();
  now_ += seconds(60);
  Tell(0);
  Step();  // step 0 is news: rank 0 had not been asked before
  EXPECT_EQ(status().phase, Phase::kRunning);
  now_ += seconds(60);
  Tell(0);
  Step();
  EXPECT_EQ(status().phase, Phase::kFailed);
  EXPECT_EQ(Reason("Failed"), "Stalled");
}

TEST_F(PlanTest, TheBudgetBeginsAnewAfterANewerCheckpointOnly) {
  world_.job.spec.restart.max_restarts = 1;
  const auto fail = [&](int attempt) {
    world_.pods = {Pod(attempt, 0).Exited(1, now_), Pod(attempt, 1).Exited(69, now_)};
    Step();
    world_.pods.clear();
    now_ += minutes(1);
    Step();
    world_.pods = {Pod(attempt + 1, 0).Running(), Pod(attempt + 1, 1).Running()};
    Step();
  };
  StartRunning();
  Tell(7, 5);
  Step();
  fail(1);
  EXPECT_EQ(status().budget.counted, 1);
  EXPECT_EQ(status().budget.checkpoint_step, 5);
  Tell(12, 10);
  Step();
  fail(2);
  EXPECT_EQ(status().budget.counted, 1) << "the checkpoint of step 10 is newer";
  EXPECT_EQ(status().attempt, 3);
  Tell(12, 10);
  Step();
  fail(3);
  EXPECT_EQ(status().phase, Phase::kFailed) << "that of step 10 again is not";
}

// ---- causes and rules ---------------------------------------------------------------------------

TEST_F(PlanTest, ANodeThatIsGoneExplainsASpentBudget) {
  world_.job.spec.restart.max_restarts = 0;
  StartRunning();
  world_.pods[1] = Pod(1, 1).Exited(137, now_);
  Step();
  world_.pods[0] = Pod(1, 0).Exited(143, now_);
  EXPECT_THAT(Step(seconds(55)).actions, ElementsAre(Action(AskNodes{{"n1"}})));
  world_.nodes["n1"] = {.time = now_, .unwell = true, .lost = true, .lost_since = now_};
  Step();
  EXPECT_EQ(status().restarts, (api::RestartCounts{.infrastructure = 1}));
  EXPECT_EQ(status().failures[0].reason, "NodeLost");
  Step();
  EXPECT_EQ(status().attempt, 2);
}

TEST_F(PlanTest, RulesOfTheSpecComeFirst) {
  world_.job.spec.restart.rules = {{.exit_codes = {3}, .action = api::FailureAction::kFail},
                                   {.reasons = {"OOMKilled"}, .action = api::FailureAction::kFail}};
  StartRunning();
  world_.pods[1] = Pod(1, 1).Exited(3, now_);
  Step();
  EXPECT_EQ(status().phase, Phase::kFailed);
  EXPECT_EQ(Reason("Failed"), "RestartRule");
  EXPECT_THAT(Message("Failed"), HasSubstr("spec.restart.rules[0] says Fail"));
}

// ---- pods of several ranks ----------------------------------------------------------------------

TEST_F(PlanTest, RanksOfAPodEndTogether) {
  world_.job.spec.processes_per_replica = 4;
  StartRunning();
  world_.pods[1] = Pod(1, 1).Exited(0);
  Step();
  EXPECT_EQ(status().succeeded_ranks.ToString(), "4-7");
  EXPECT_EQ(status().replicas.succeeded, 1);
  EXPECT_EQ(status().replicas.desired, 2);
  world_.pods[0] = Pod(1, 0).Exited(1, now_);
  Step();
  EXPECT_EQ(status().failures[0].rank, 0);
  EXPECT_THAT(Message("Progressing"), HasSubstr("ranks 0-3 (pod mnist-1-0) exited with code 1"));
}

TEST_F(PlanTest, SucceedsWhenEveryRankOfEveryPodHas) {
  world_.job.spec.processes_per_replica = 4;
  StartRunning();
  world_.pods = {Pod(1, 0).Exited(0), Pod(1, 1).Exited(0)};
  Step();
  EXPECT_EQ(status().phase, Phase::kSucceeded);
  EXPECT_EQ(status().succeeded_ranks.ToString(), "0-7");
}

// ---- what is needed beside pods -----------------------------------------------------------------

TEST_F(PlanTest, MakesWhatPodsNeedBeforeThem) {
  world_.job.spec.checkpoint = {
      .path = "/c", .claim_name = "", .claim_template = json::Compact(json::Json())};
  world_.job.spec.scheduling.gang = api::Gang::kKubernetes;
  world_.settings.network_policies = true;
  EXPECT_THAT(Step().actions,
              ElementsAre(Action(CreateExtra{Extra::kClaim, 1}),
                          Action(CreateExtra{Extra::kNetworkPolicy, 1}),
                          Action(CreateExtra{Extra::kPodGroup, 1}), Action(CreatePods{1, {0, 1}})));
  for (const Extra extra : {Extra::kClaim, Extra::kNetworkPolicy, Extra::kPodGroup}) {
    world_.extras[extra] = {.attempt = 1};
  }
  EXPECT_THAT(Step().actions, ElementsAre(Action(CreatePods{1, {0, 1}})));
  world_.pods = {Pod(1, 0).Running(), Pod(1, 1).Exited(1, now_)};
  Step();
  world_.pods.clear();
  EXPECT_THAT(Step().actions,
              ElementsAre(Action(CreateExtra{Extra::kClaim, 2}),
                          Action(CreateExtra{Extra::kPodGroup, 2}), Action(CreatePods{2, {0, 1}})))
      << "the policy serves all attempts";
}

TEST_F(PlanTest, SaysWhatStandsInTheWay) {
  world_.job.spec.scheduling.gang = api::Gang::kKubernetes;
  Step();
  world_.extras[Extra::kPodGroup] = {.attempt = 1,
                                     .state = ExtraView::State::kUnsupported,
                                     .message = "the API server has no podgroups"};
  const Plan plan = Step();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(plan.wake_up);
  EXPECT_EQ(Reason("Progressing"), "GangUnavailable");
  EXPECT_THAT(Message("Progressing"), HasSubstr("the API server has no podgroups"));
  world_.extras[Extra::kPodGroup].state = ExtraView::State::kForeign;
  Step();
  EXPECT_THAT(Message("Progressing"), HasSubstr("PodGroup 'mnist-1' exists and belongs"));
}

TEST_F(PlanTest, WarnsOfOneGpuPodsThatShareANode) {
  EditPod(world_.job.spec, [](json::Json& pod) {
    pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1;
  });
  StartRunning();
  EXPECT_EQ(State("TransportWarning"), "True OneGpuPodsShareNode");
  EXPECT_THAT(Message("TransportWarning"), HasSubstr("2 one-GPU pods are on node n1"));
  EXPECT_THAT(Message("TransportWarning"), HasSubstr("spec.processesPerReplica"));
}

}  // namespace
}  // namespace ddp::job
