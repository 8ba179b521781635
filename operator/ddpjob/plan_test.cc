#include "operator/ddpjob/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/ddpjob/plan_testing.h"

namespace ddp::job {
namespace {

using api::Phase;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kStart;
using testing::PlanTest;
using testing::Pod;

TEST_F(PlanTest, StartsWithServiceAndPodsOfAttemptOne) {
  world_.service = ServiceState::kMissing;
  const Plan plan = Step();
  EXPECT_THAT(plan.actions, ElementsAre(Action(CreateService{}), Action(CreatePods{1, {0, 1}})));
  EXPECT_EQ(plan.urgency, Urgency::kNow);
  EXPECT_EQ(status().phase, Phase::kPending);
  EXPECT_EQ(status().start_time, kStart);
}

TEST_F(PlanTest, GoesThroughPhasesToSuccess) {
  Step();
  world_.pods = {Pod(1, 0), Pod(1, 1)};
  EXPECT_THAT(Step().actions, IsEmpty());
  EXPECT_EQ(status().phase, Phase::kPending);
  world_.pods[0] = Pod(1, 0).Running();
  Step();
  EXPECT_EQ(status().phase, Phase::kStarting);
  world_.pods[1] = Pod(1, 1).Running();
  Step();
  EXPECT_EQ(status().phase, Phase::kRunning);
  EXPECT_EQ(Reason("Ready"), "AllRanksReady");
  world_.pods[1] = Pod(1, 1).Exited(0);
  Step();
  EXPECT_EQ(status().succeeded_ranks.ToString(), "1");
  world_.pods = {Pod(1, 0).Exited(0)};  // a done rank's pod vanished: it stays done
  const Plan plan = Step(seconds(5));
  EXPECT_EQ(status().phase, Phase::kSucceeded);
  EXPECT_EQ(status().completion_time, kStart + seconds(5));
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(plan.events, Contains(Field(&Event::reason, "AllRanksSucceeded")));
  EXPECT_EQ(Step(minutes(10)).urgency, Urgency::kNone) << "a finished job stays as it is";
}

TEST_F(PlanTest, AFailureIsCountedOnceThenTheGroupStartsAgain) {
  StartRunning();
  world_.pods[1] = Pod(1, 1).Exited(137, now_).Saying("Error", "boom\n");
  const Plan failed = Step();
  EXPECT_EQ(status().phase, Phase::kRestarting);
  EXPECT_EQ(status().restarts.application, 1);
  EXPECT_EQ(status().failures.size(), 1U);
  EXPECT_EQ(status().failures[0].signal, 9);
  EXPECT_EQ(status().failures[0].message, "boom\n");
  EXPECT_THAT(Message("Progressing"), HasSubstr("exited with code 137 (SIGKILL); the group"));
  EXPECT_THAT(failed.actions, ElementsAre(Action(DeletePods{1, true, 5})));
  Step();
  EXPECT_EQ(status().restarts.application, 1);
  // The survivor is being stopped; the failed pod is kept for its log.
  world_.pods[0] = Pod(1, 0).Running().Deleted(now_ + seconds(5));
  const Plan waiting = Step();
  EXPECT_EQ(status().attempt, 1);
  EXPECT_EQ(waiting.wake_up, now_ + seconds(7));
  world_.pods = {Pod(1, 1).Exited(137, kStart)};
  const Plan next = Step();
  EXPECT_EQ(status().attempt, 2);
  EXPECT_EQ(status().phase, Phase::kStarting);
  EXPECT_THAT(next.actions, ElementsAre(Action(CreatePods{2, {0, 1}})));
}

TEST_F(PlanTest, ADeadNodesPodDoesNotBlockTheNextAttempt) {
  StartRunning();
  world_.pods[1] = Pod(1, 1).Exited(1, now_);
  Step();
  world_.pods[0] = Pod(1, 0).Running().Deleted(now_ + seconds(5));
  Step(seconds(6));
  EXPECT_EQ(status().attempt, 1);
  const Plan next = Step(seconds(1));
  EXPECT_EQ(status().attempt, 2);
  EXPECT_THAT(next.actions, ElementsAre(Action(CreatePods{2, {0, 1}})));
}

TEST_F(PlanTest, ADeletedPodRestartsUncounted) {
  StartRunning();
  world_.pods.pop_back();
  Step();
  EXPECT_EQ(status().restarts, (api::RestartCounts{.infrastructure = 1}));
  EXPECT_EQ(status().failures[0].pod, "mnist-1-1");
  EXPECT_EQ(status().failures[0].reason, "PodDeleted");
}

// Its end and its removal were seen at once: what was last known of it decides.
TEST_F(PlanTest, APodThatIsGoneIsJudgedByItsLastState) {
  struct Row {
    const char* what;
    PodRecord last;
    api::RestartCounts restarts;
    const char* reason;
  };
  const TimePoint now = now_;
  for (const Row& row : {
           Row{"preempted",
               Pod(1, 1).Running().Disrupted("PreemptionByScheduler").Deleted(now),
               {.preemption = 1},
               "PreemptionByScheduler"},
           Row{"failed by itself", Pod(1, 1).Exited(1, now), {.application = 1}, "Error"},
           Row{"taken away by force", Pod(1, 1).Running(), {.infrastructure = 1}, "PodDeleted"},
       }) {
    world_.job.status = {};
    world_.pods.clear();
    world_.departed.clear();
    StartRunning();
    world_.pods.pop_back();
    world_.departed = {row.last};
    Step();
    EXPECT_EQ(status().restarts, row.restarts) << row.what;
    ASSERT_FALSE(status().failures.empty()) << row.what;
    EXPECT_EQ(status().failures[0].reason, row.reason) << row.what;
    EXPECT_EQ(status().failures[0].node, "n1") << row.what;
  }
}

TEST_F(PlanTest, ARankThatSucceededBeforeItsPodWentIsDone) {
  StartRunning();
  world_.pods.pop_back();
  world_.departed = {Pod(1, 1).Exited(0, now_)};
  Step();
  EXPECT_EQ(status().phase, Phase::kRunning);
  EXPECT_TRUE(status().succeeded_ranks.Contains(1));
  EXPECT_EQ(status().restarts, api::RestartCounts{});
}

TEST_F(PlanTest, SomebodyElsesLongGraceIsShortened) {
  StartRunning();
  world_.pods[1] = Pod(1, 1).Running().Deleted(now_ + minutes(5));
  world_.pods[0] = Pod(1, 0).Exited(69, now_);
  EXPECT_THAT(Step().actions, ElementsAre(Action(DeletePods{1, true, 5})));
  EXPECT_EQ(status().restarts, (api::RestartCounts{.infrastructure = 1}));
}

TEST_F(PlanTest, APodMissingWhileTheGroupIsMadeIsMade) {
  Step();
  world_.pods = {Pod(1, 0)};
  EXPECT_THAT(Step().actions, ElementsAre(Action(CreatePods{1, {1}})));
}

TEST_F(PlanTest, WaitsForTheCulpritThatOthersBlame) {
  StartRunning();
  world_.pods[0] = Pod(1, 0).Exited(69, now_);
  const Plan plan = Step();
  EXPECT_EQ(status().phase, Phase::kRunning);
  EXPECT_EQ(plan.wake_up, now_ + seconds(3));
  world_.pods[1] = Pod(1, 1).Exited(1, now_);
  Step(seconds(1));
  EXPECT_EQ(status().failures[0].rank, 1);
}

TEST_F(PlanTest, ASilentPeerIsBlamedAfterAWhile) {
  StartRunning();
  world_.pods[0] = Pod(1, 0).Exited(69, now_);
  Step();
  Step(seconds(3));
  EXPECT_EQ(status().phase, Phase::kRestarting);
  EXPECT_EQ(status().failures[0].reason, "PeerLost");
}

TEST_F(PlanTest, UserErrorsFailAtOnce) {
  StartRunning();
  world_.pods[0] = Pod(1, 0).Exited(66, now_).Saying("Error", "line 1\nno such file: /data/x\n");
  const Plan plan = Step();
  EXPECT_EQ(status().phase, Phase::kFailed);
  EXPECT_EQ(Reason("Failed"), "UserError");
  EXPECT_THAT(Message("Failed"), HasSubstr("rank 0 (pod mnist-1-0) exited with code 66"));
  EXPECT_THAT(Message("Failed"), HasSubstr("no such file: /data/x"));
  EXPECT_THAT(plan.actions, ElementsAre(Action(DeletePods{1, true, 5})));
  world_.pods.clear();
  EXPECT_THAT(Step(minutes(1)).actions, IsEmpty()) << "nothing is recreated for a finished job";
  EXPECT_EQ(status().phase, Phase::kFailed);
}

TEST_F(PlanTest, ASpentBudgetWaitsForNewsOfTheNode) {
  world_.job.spec.restart.max_restarts = 0;
  StartRunning();
  world_.pods[1] = Pod(1, 1).Exited(137, now_);
  const Plan plan = Step();
  EXPECT_EQ(status().phase, Phase::kRestarting);
  EXPECT_EQ(status().give_up_time, now_ + seconds(60));
  EXPECT_EQ(plan.wake_up, now_ + seconds(55)) << "to ask for the node";
  EXPECT_EQ(Reason("Progressing"), "AwaitingCause");
  world_.pods[1] = Pod(1, 1).Exited(137, now_).Disrupted("DeletionByTaintManager");
  world_.pods[0] = Pod(1, 0).Exited(143, now_);
  Step(seconds(30));
  EXPECT_EQ(status().restarts, (api::RestartCounts{.infrastructure = 1}));
  Step();
  EXPECT_EQ(status().attempt, 2);
}

TEST_F(PlanTest, ASpentBudgetFailsAfterTheWait) {
  world_.job.spec.restart.max_restarts = 0;
  StartRunning();
  world_.pods[1] = Pod(1, 1).Exited(137, now_);
  Step();
  Step(seconds(60));
  EXPECT_EQ(status().phase, Phase::kFailed);
  EXPECT_EQ(Reason("Failed"), "MaxRestartsExceeded");
}

TEST_F(PlanTest, KeepsOnlyTheLastFailedAttemptsPods) {
  StartRunning();
  world_.pods = {Pod(1, 0).Exited(1), Pod(1, 1).Exited(69)};
  Step();
  Step();
  ASSERT_EQ(status().attempt, 2);
  world_.pods.push_back(Pod(2, 0).Running());
  world_.pods.push_back(Pod(2, 1).Running());
  EXPECT_THAT(Step().actions, IsEmpty());
  world_.pods[2] = Pod(2, 0).Exited(1, now_);
  EXPECT_THAT(Step().actions,
              ElementsAre(Action(DeletePods{1, false, 5}), Action(DeletePods{2, true, 5})));
}

TEST_F(PlanTest, SaysWhyPodsDoNotStart) {
  Step();
  world_.pods = {Pod(1, 0).Saying("Unschedulable", "0/1 nodes are available"), Pod(1, 1)};
  Step();
  EXPECT_EQ(Reason("Progressing"), "Unschedulable");
  EXPECT_THAT(Message("Progressing"), HasSubstr("0/1 nodes are available"));
}

TEST_F(PlanTest, AForeignServiceIsNamedAndNothingIsMade) {
  world_.service = ServiceState::kForeign;
  const Plan plan = Step();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(Reason("Progressing"), "ServiceNameTaken");
  EXPECT_TRUE(plan.wake_up.has_value());
}

TEST_F(PlanTest, ARefusedTemplateFailsTheJob) {
  Step();
  world_.create_failure = {CreateFailure::Kind::kRefused, 1,
                           "unknown field spec.containers[0].foo"};
  Step();
  EXPECT_EQ(status().phase, Phase::kFailed);
  EXPECT_THAT(Message("Failed"), HasSubstr("unknown field spec.containers[0].foo"));
}

TEST_F(PlanTest, ATakenNameRaisesTheAttemptUncounted) {
  Step();
  world_.create_failure = {CreateFailure::Kind::kNameTaken, 1, "pod mnist-1-0 exists"};
  Step();
  EXPECT_EQ(status().attempt, 2);
  EXPECT_EQ(status().restarts.Total(), 0);
}

TEST_F(PlanTest, AQuotaIsSaidAndTriedAgain) {
  Step();
  world_.create_failure = {CreateFailure::Kind::kTransient, 1, "exceeded quota: gpus"};
  const Plan plan = Step();
  EXPECT_THAT(Message("Progressing"), HasSubstr("exceeded quota: gpus"));
  EXPECT_THAT(plan.actions, ElementsAre(Action(CreatePods{1, {0, 1}})));
  EXPECT_TRUE(plan.wake_up.has_value());
}

TEST_F(PlanTest, LabelsThatStatusDoesNotKnowRaiseTheAttempt) {
  world_.pods = {Pod(4, 0).Running(), Pod(4, 1).Running()};
  const Plan plan = Step();
  EXPECT_EQ(status().phase, Phase::kRestarting);
  EXPECT_THAT(plan.actions, ElementsAre(Action(DeletePods{4, true, std::nullopt})));
  world_.pods.clear();
  Step();
  EXPECT_EQ(status().attempt, 5);
  EXPECT_EQ(status().restarts.Total(), 0);
}

TEST_F(PlanTest, AnInvalidSpecEndsInASentence) {
  world_.problems = {{"spec.template.spec.hostname", "must be absent"}};
  EXPECT_THAT(Step().actions, IsEmpty());
  EXPECT_EQ(status().phase, Phase::kFailed);
  EXPECT_EQ(Message("Failed"), "spec.template.spec.hostname: must be absent");
}

TEST_F(PlanTest, ADeletedJobIsLeftToTheGarbageCollector) {
  StartRunning();
  world_.job.metadata.deletion_time = now_;
  world_.pods.clear();
  const Plan plan = Step();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(plan.urgency, Urgency::kNone);
}

TEST_F(PlanTest, CountsAloneAreNotUrgent) {
  StartRunning();
  world_.pods[1] = Pod(1, 1).Running();
  EXPECT_EQ(Step().urgency, Urgency::kNone);
  Observed three = world_;
  three.job.spec.replicas = 3;
  three.job.status = {};
  three.pods.clear();
  three.job.status = MakePlan(three, now_).status;
  three.pods = {Pod(1, 0)};
  three.job.status = MakePlan(three, now_).status;
  three.pods.push_back(Pod(1, 1));
  EXPECT_EQ(MakePlan(three, now_).urgency, Urgency::kCounts);
}

TEST_F(PlanTest, AStatusReadBackIsTheSame) {
  StartRunning();
  world_.pods[1] = Pod(1, 1).Exited(137, now_).Saying("OOMKilled", "killed");
  now_ += base::Duration(123'456);
  Step();
  EXPECT_EQ(api::StatusFromJson(api::StatusToJson(status())), status());
  EXPECT_EQ(Step().urgency, Urgency::kNone);
}

}  // namespace
}  // namespace ddp::job
