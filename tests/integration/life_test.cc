// The policies of a job's life on a real API server: suspend, timers, causes told apart, what a job
// needs beside its pods. Most are what users of other operators reported as broken there.
#include <csignal>

#include "operator/api/constants.h"
#include "tests/integration/scenario.h"

namespace ddp::integration {
namespace {

using json::Json;
using ::testing::HasSubstr;

const kube::Resource kClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
const kube::Resource kPolicies{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"};

class LifeTest : public Scenario {
 protected:
  void RestartOperator() {
    operator_->process().Signal(SIGKILL);
    ASSERT_TRUE(operator_->process().Wait(seconds(10)));
    operator_ = std::make_unique<OperatorProcess>(kubeconfig_, options_);
  }
  void StartOperatorWith(const std::vector<std::string>& options) {
    options_ = options;
    RestartOperator();
  }
  int Requests(const std::string& verb, const std::string& resource) const {
    int count = 0;
    for (const auto& request : cluster_.OperatorRequests()) {
      count +=
          request.name_space == namespace_ && request.verb == verb && request.resource == resource;
    }
    return count;
  }

  const std::string kubeconfig_ = cluster_.OperatorKubeconfig();
  std::vector<std::string> options_;
  std::unique_ptr<OperatorProcess> operator_ = std::make_unique<OperatorProcess>(kubeconfig_);
};

// ---- suspend ------------------------------------------------------------------------------------

TEST_F(LifeTest, AJobCreatedSuspendedIsResumedAndPlacedInOneUpdate) {
  Create(Job(3, {{"suspend", true}}));
  WaitForPhase("Suspended");
  EXPECT_TRUE(kubelet_->Ever().empty());
  Change({{"suspend", false},
          {"replicas", 2},
          {"template", {{"spec", {{"nodeSelector", {{"pool", "a"}}}}}}}});
  WaitForRunningAttempt(1, 2);
  EXPECT_EQ(Read(kPods, Pod(1, 1))["spec"]["nodeSelector"]["pool"], "a");
  EXPECT_EQ(kubelet_->Ever().size(), 2U);
}

TEST_F(LifeTest, ASuspendInTheMidstOfCreationLeavesNoPod) {
  Create(Job(48));
  ASSERT_TRUE(Eventually(kLongest, [&] { return kubelet_->Ever().size() > 3; }));
  Change({{"suspend", true}});
  WaitForPhase("Suspended");
  ASSERT_TRUE(Eventually(kLongest, [&] {
    return LivePods().empty() &&
           json::GetInt(Read(kJobs, "train"), {"status", "replicas", "active"}) == 0;
  }));
  Change({{"suspend", false}});
  WaitForRunningAttempt(2, 48);
  EXPECT_EQ(Restarts("total"), 0);
  ExpectNoPodMadeTwice();
}

// ---- timers -------------------------------------------------------------------------------------

TEST_F(LifeTest, ADeadlineFailsAQuietJobAlsoOfARestartedOperator) {
  Create(Job(1, {{"activeDeadlineSeconds", 4}}));
  WaitForRunningAttempt(1, 1);
  RestartOperator();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(WaitForReason("Failed", "DeadlineExceeded"), HasSubstr("activeDeadlineSeconds"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(6));
}

TEST_F(LifeTest, AFinishedJobGoesAfterItsTimeToLiveAlsoOfARestartedOperator) {
  Create(Job(1, {{"ttlSecondsAfterFinished", 2}}));
  WaitForRunningAttempt(1, 1);
  EndAll(1, 1, 0);
  WaitForPhase("Succeeded");
  RestartOperator();
  EXPECT_TRUE(Eventually(seconds(6), [&] { return Read(kJobs, "train").empty(); }));
}

TEST_F(LifeTest, AnAttemptThatDoesNotStartInTimeIsReleasedWithTheSchedulersWords) {
  kubelet_->SetStarting(false);
  Create(Job(2, {{"startupTimeoutSeconds", 1}}));
  ASSERT_TRUE(Eventually(kLongest, [&] { return kubelet_->Place(Pod(1, 0)); }));
  ASSERT_TRUE(Eventually(kLongest, [&] {
    return admin_
        .Patch(kPods, namespace_, Pod(1, 1), kube::PatchType::kMerge,
               {{"status",
                 {{"conditions",
                   {{{"type", "PodScheduled"},
                     {"status", "False"},
                     {"reason", "Unschedulable"},
                     {"message", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}}}}}}},
               "status")
        .has_value();
  }));
  ASSERT_TRUE(Eventually(kLongest, [&] { return Restarts("startup") >= 1; }));
  kubelet_->SetStarting(true);
  const Json status = Read(kJobs, "train")["status"];
  const Json& first = status["failures"].back();
  EXPECT_EQ(first["reason"], "StartupTimeout");
  EXPECT_THAT(first["message"].get<std::string>(), HasSubstr("Insufficient nvidia.com/gpu"));
  EXPECT_EQ(json::GetInt(status, {"restarts", "application"}), 0);
}

// ---- causes -------------------------------------------------------------------------------------

TEST_F(LifeTest, DisruptionsDoNotUseUpTheBudget) {
  Create(Job(2, {{"restart", {{"maxRestarts", 1}, {"maxBackoffSeconds", 1}}}}));
  WaitForRunningAttempt(1, 2);
  ASSERT_TRUE(kubelet_->End(Pod(1, 1), 143, "EvictionByEvictionAPI"));
  WaitForRunningAttempt(2, 2);
  ASSERT_TRUE(kubelet_->Mark(Pod(2, 0), "PreemptionByScheduler"));
  ASSERT_TRUE(admin_.Delete(kPods, namespace_, Pod(2, 0)));
  WaitForRunningAttempt(3, 2);
  ASSERT_TRUE(kubelet_->Fail(Pod(3, 1), "NodeShutdown"));
  WaitForRunningAttempt(4, 2);
  EXPECT_EQ(Restarts("infrastructure"), 2);
  EXPECT_EQ(Restarts("preemption"), 1);
  ASSERT_TRUE(kubelet_->End(Pod(4, 1), 1));
  WaitForRunningAttempt(5, 2);
  EXPECT_EQ(Restarts("application"), 1) << "the one that was left";
  const Json failures = Read(kJobs, "train")["status"]["failures"];
  EXPECT_EQ(failures[1]["reason"], "NodeShutdown");
  EXPECT_EQ(failures[1]["message"], "the node was shut down");
  EXPECT_EQ(failures[2]["reason"], "PreemptionByScheduler");
  EXPECT_EQ(failures[3]["reason"], "EvictionByEvictionAPI");
  EXPECT_EQ(failures[3]["node"], "node-0");
  ExpectNoPodMadeTwice();
}

TEST_F(LifeTest, ABudgetIsSpentExactlyWhateverTheOperatorGoesThrough) {
  Create(Job(1, {{"restart", {{"maxRestarts", 2}, {"backoffSeconds", 0}}}}));
  for (int attempt = 1; attempt <= 3; ++attempt) {
    WaitForRunningAttempt(attempt, 1);
    RestartOperator();
    ASSERT_TRUE(kubelet_->End(Pod(attempt, 0), 1));
  }
  EXPECT_THAT(WaitForReason("Failed", "MaxRestartsExceeded"), HasSubstr("2 of 2 restarts"));
  EXPECT_EQ(kubelet_->Ever().size(), 3U);
  EXPECT_EQ(Restarts("application"), 2);
  EXPECT_FALSE(Read(kPods, Pod(3, 0)).empty()) << "the last one is kept for its log";
  WaitUntilGone(Pod(2, 0));
}

TEST_F(LifeTest, OneLostPodOfManyIsOneRestart) {
  Create(Job(32));
  WaitForRunningAttempt(1, 32);
  kube::DeleteOptions now;
  now.grace_seconds = 0;
  ASSERT_TRUE(admin_.Delete(kPods, namespace_, Pod(1, 17), now));
  WaitForRunningAttempt(2, 32);
  EXPECT_EQ(Restarts("total"), 1);
  ExpectNoPodMadeTwice();
}

// A kubelet tells of the container's end first. Whoever deletes the pod then, deletes its log.
TEST_F(LifeTest, APodThatHasEndedKeepsItsLogThoughItsPhaseComesLater) {
  Create(Job(3));
  WaitForRunningAttempt(1, 3);
  ASSERT_TRUE(kubelet_->EndContainers(Pod(1, 1), 1));
  WaitForRunningAttempt(2, 3);
  EXPECT_THAT(LivePods(), ::testing::IsSupersetOf({Pod(1, 1), Pod(2, 0), Pod(2, 1), Pod(2, 2)}));
  WaitUntilGone(Pod(1, 0));
  ASSERT_TRUE(kubelet_->End(Pod(1, 1), 1));

  for (const int rank : {0, 1, 2}) {
    ASSERT_TRUE(kubelet_->EndContainers(Pod(2, rank), 0));
  }
  WaitForPhase("Succeeded");
  for (const int rank : {0, 1, 2}) {
    ASSERT_TRUE(kubelet_->End(Pod(2, rank), 0)) << "deleted, and its log with it";
  }
  EXPECT_THAT(LivePods(), ::testing::IsSupersetOf({Pod(2, 0), Pod(2, 1), Pod(2, 2)}));
}

TEST_F(LifeTest, RulesOfTheSpecDecideFirst) {
  Create(Job(1, {{"restart", {{"rules", {{{"exitCodes", {3}}, {"action", "Fail"}}}}}}}));
  WaitForRunningAttempt(1, 1);
  ASSERT_TRUE(kubelet_->End(Pod(1, 0), 3));
  EXPECT_THAT(WaitForReason("Failed", "RestartRule"), HasSubstr("exited with code 3"));
}

TEST_F(LifeTest, APodOnALostNodeHoldsNothingUpAndIsDeletedByForce) {
  StartOperatorWith({"--force-delete-after", "1"});
  Create(Job(2, {{"restart", {{"gracePeriodSeconds", 1}}}}));
  WaitForRunningAttempt(1, 2);
  kubelet_->SetEnding(false);  // and there is no Node object: it is gone
  ASSERT_TRUE(kubelet_->End(Pod(1, 1), 1));
  ASSERT_TRUE(Eventually(kLongest, [&] { return Attempt() == 2; }));
  EXPECT_FALSE(Read(kPods, Pod(1, 0)).empty()) << "the new attempt waited for the lost pod";
  EXPECT_TRUE(Eventually(seconds(10), [&] { return Read(kPods, Pod(1, 0)).empty(); }));
  kubelet_->SetEnding(true);
  WaitForRunningAttempt(2, 2);
}

// ---- what must not happen -----------------------------------------------------------------------

TEST_F(LifeTest, NothingIsMadeAgainForAFinishedJob) {
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  EndAll(1, 2, 0);
  WaitForPhase("Succeeded");
  kube::DeleteOptions now;
  now.grace_seconds = 0;
  ASSERT_TRUE(admin_.DeleteCollection(kPods, namespace_, {"", "metadata.name!=none"}, now));
  ASSERT_TRUE(admin_.Delete(kServices, namespace_, "train"));
  RestartOperator();
  // A second job shows that the operator has looked at everything.
  Json other = Job(1);
  other["metadata"]["name"] = "other";
  Create(other);
  ASSERT_TRUE(Eventually(kLongest, [&] { return !Read(kPods, "other-1-0").empty(); }));
  EXPECT_EQ(kubelet_->Ever().count("train-2-0"), 0U);
  EXPECT_TRUE(Read(kServices, "train").empty());
  EXPECT_EQ(Restarts("total"), 0);
  ExpectNoPodMadeTwice();
}

TEST_F(LifeTest, AnotherWriterDoesNotHoldTheStatusUp) {
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  std::jthread writer([this](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      (void)admin_.Patch(kJobs, namespace_, "train", kube::PatchType::kMerge,
                         {{"metadata", {{"annotations", {{"beat", std::to_string(i)}}}}}});
      std::this_thread::sleep_for(milliseconds(10));  // the rate of the storm, not a wait
    }
  });
  EndAll(1, 2, 0);
  EXPECT_TRUE(Eventually(seconds(3), [&] { return Phase() == "Succeeded"; }));
}

TEST_F(LifeTest, JobsOfOneNameInTwoNamespacesAreTwo) {
  const std::string elsewhere = namespace_ + "-b";
  ASSERT_TRUE(admin_.Create(
      {"", "v1", "namespaces", "Namespace"}, "",
      {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", elsewhere}}}}));
  ASSERT_TRUE(admin_.Create(kJobs, elsewhere, Job(1)));
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  ASSERT_TRUE(kubelet_->End(Pod(1, 1), 1));
  WaitForRunningAttempt(2, 2);
  EndAll(2, 2, 0);
  WaitForPhase("Succeeded");
  const auto other = admin_.Get(kJobs, elsewhere, "train");
  ASSERT_TRUE(other);
  EXPECT_EQ((*other)["status"]["phase"], "Pending") << "nobody plays kubelet there";
  EXPECT_EQ((*other)["status"]["attempt"], 1);
  EXPECT_TRUE(admin_.Get(kPods, elsewhere, Pod(1, 0)));
  (void)admin_.Delete(kJobs, elsewhere, "train");
}

TEST_F(LifeTest, SomebodyElsesJobIsLeftAlone) {
  Create(Job(1, {{"managedBy", "example.com/other"}}));
  Json own = Job(1);
  own["metadata"]["name"] = "own";
  Create(own);
  ASSERT_TRUE(Eventually(kLongest, [&] { return !Read(kPods, "own-1-0").empty(); }));
  EXPECT_FALSE(Read(kJobs, "train").contains("status"));
  EXPECT_EQ(kubelet_->Ever().count("train-1-0"), 0U);
}

// ---- what a job needs beside its pods -----------------------------------------------------------

TEST_F(LifeTest, AClaimFromATemplateOutlivesTheJobAndServesTheNext) {
  const Json checkpoint = {{"path", "/ckpt"},
                           {"claimTemplate",
                            {{"spec",
                              {{"accessModes", {"ReadWriteMany"}},
                               {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}}}};
  Create(Job(2, {{"checkpoint", checkpoint}}));
  WaitForRunningAttempt(1, 2);
  const Json claim = Read(kClaims, "train-checkpoint");
  EXPECT_EQ(claim["metadata"]["labels"]["ddpjob.dev/job-name"], "train");
  EXPECT_FALSE(claim["metadata"].contains("ownerReferences"));
  const Json pod = Read(kPods, Pod(1, 1));
  EXPECT_THAT(json::Dump(pod["spec"]["volumes"]), HasSubstr("train-checkpoint"));
  EXPECT_TRUE(pod["spec"]["securityContext"].contains("fsGroup"));
  kube::DeleteOptions now;
  now.grace_seconds = 0;
  ASSERT_TRUE(admin_.Delete(kJobs, namespace_, "train"));
  ASSERT_TRUE(admin_.DeleteCollection(kPods, namespace_, {"", "metadata.name!=none"}, now));
  ASSERT_TRUE(admin_.Delete(kServices, namespace_, "train"));
  ASSERT_TRUE(Eventually(kLongest, [&] { return kubelet_->Running().empty(); }));
  Create(Job(2, {{"checkpoint", checkpoint}}));
  WaitForRunningAttempt(1, 2);
  EXPECT_EQ(Read(kClaims, "train-checkpoint")["metadata"]["uid"], claim["metadata"]["uid"]);
}

TEST_F(LifeTest, AForeignClaimIsAConditionAndNoPodIsMade) {
  const Json spec = {{"accessModes", {"ReadWriteOnce"}},
                     {"resources", {{"requests", {{"storage", "1Gi"}}}}}};
  ASSERT_TRUE(admin_.Create(kClaims, namespace_,
                            {{"apiVersion", "v1"},
                             {"kind", "PersistentVolumeClaim"},
                             {"metadata", {{"name", "train-checkpoint"}}},
                             {"spec", spec}}));
  Create(Job(1, {{"checkpoint", {{"path", "/c"}, {"claimTemplate", {{"spec", spec}}}}}}));
  EXPECT_THAT(WaitForReason("Progressing", "ClaimNameTaken"), HasSubstr("train-checkpoint"));
  EXPECT_TRUE(kubelet_->Ever().empty());
}

TEST_F(LifeTest, NetworkPoliciesAreMadeWhereTheyAreAskedFor) {
  StartOperatorWith({"--network-policies", "--progress-from", "monitoring"});
  Create(Job(1));
  WaitForRunningAttempt(1, 1);
  const Json policy = Read(kPolicies, "train");
  EXPECT_EQ(policy["metadata"]["ownerReferences"][0]["kind"], "DDPJob");
  EXPECT_THAT(json::Dump(policy["spec"]), HasSubstr(R"(["ddp-system","monitoring"])"));
  ASSERT_TRUE(kubelet_->End(Pod(1, 0), 1));
  WaitForRunningAttempt(2, 1);
  EXPECT_EQ(Requests("create", "networkpolicies"), 1) << "one serves all attempts";
  RestartOperator();
  ASSERT_TRUE(kubelet_->End(Pod(2, 0), 1));
  WaitForRunningAttempt(3, 1);
}

TEST_F(LifeTest, WithoutPodGroupsAGangIsACondition) {
  Create(Job(2, {{"scheduling", {{"gang", "Kubernetes"}}}}));
  EXPECT_THAT(WaitForReason("Progressing", "GangUnavailable"), HasSubstr("podgroups"));
  EXPECT_TRUE(kubelet_->Ever().empty());
  EXPECT_EQ(Requests("create", "podgroups"), 0) << "the server was asked what it serves";
}

TEST_F(LifeTest, TheServerTakesEveryPlacement) {
  Json job = Job(2, {{"processesPerReplica", 4},
                     {"scheduling",
                      {{"queue", "gpus"},
                       {"topologyKey", "topology.kubernetes.io/zone"},
                       {"topologyMode", "Required"}}}});
  job["spec"]["template"]["spec"]["hostNetwork"] = true;
  Create(job);
  WaitForRunningAttempt(1, 2);
  const Json pod = Read(kPods, Pod(1, 1));
  EXPECT_EQ(pod["metadata"]["labels"]["ddpjob.dev/rank"], "4");
  EXPECT_EQ(pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"], "train-1");
  EXPECT_EQ(pod["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
  EXPECT_THAT(json::Dump(pod["spec"]["containers"][0]["env"]), HasSubstr("PET_NPROC_PER_NODE"));
  WaitForReason("ProgressAvailable", "HostNetwork");
  EndAll(1, 2, 0);
  WaitForPhase("Succeeded");
  EXPECT_EQ(json::GetString(Read(kJobs, "train"), {"status", "succeededRanks"}), "0-7");
}

}  // namespace
}  // namespace ddp::integration
