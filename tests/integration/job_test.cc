// A job's life on a real API server, with no faults but its own.
#include "operator/api/constants.h"
#include "tests/integration/scenario.h"

namespace ddp::integration {
namespace {

using json::Json;
using ::testing::HasSubstr;

class JobTest : public Scenario {
 protected:
  std::string EnvOf(const Json& pod, const std::string& name) {
    for (const Json& variable : pod["spec"]["containers"][0]["env"]) {
      if (variable["name"] == name) {
        return variable["value"];
      }
    }
    return "(not set)";
  }
  OperatorProcess operator_{cluster_.OperatorKubeconfig()};
};

TEST_F(JobTest, BecomesServiceAndPodsAsDesignedAndSucceeds) {
  Create(Job(3));
  WaitForRunningAttempt(1, 3);
  const std::string uid = json::GetString(Read(kJobs, "train"), {"metadata", "uid"});

  const Json service = Read(kServices, "train");
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  EXPECT_EQ(service["spec"]["selector"]["ddpjob.dev/job-uid"], uid);

  for (int rank = 0; rank < 3; ++rank) {
    const Json pod = Read(kPods, Pod(1, rank));
    EXPECT_EQ(pod["metadata"]["labels"]["ddpjob.dev/job-name"], "train");
    EXPECT_EQ(pod["metadata"]["labels"]["ddpjob.dev/rank"], std::to_string(rank));
    EXPECT_EQ(pod["metadata"]["labels"]["ddpjob.dev/replica"], std::to_string(rank));
    EXPECT_EQ(pod["metadata"]["labels"]["ddpjob.dev/attempt"], "1");
    EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], uid);
    EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["controller"], true);
    EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], false);
    EXPECT_EQ(pod["spec"]["hostname"], Pod(1, rank));
    EXPECT_EQ(pod["spec"]["subdomain"], "train");
    EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
    EXPECT_EQ(EnvOf(pod, "RANK"), std::to_string(rank));
    EXPECT_EQ(EnvOf(pod, "WORLD_SIZE"), "3");
    EXPECT_EQ(EnvOf(pod, "MASTER_ADDR"), "train-1-0.train." + namespace_ + ".svc");
    EXPECT_EQ(EnvOf(pod, "DDP_JOB_UID"), uid);
  }
  const std::string table = cluster_.Kubectl({"get", "ddp", "-n", namespace_});
  EXPECT_THAT(table, HasSubstr("PHASE"));
  EXPECT_THAT(table, HasSubstr("Running"));
  EXPECT_THAT(table, HasSubstr("3/3"));

  EndAll(1, 3, 0);
  WaitForPhase("Succeeded");
  EXPECT_EQ(Restarts("application"), 0);
  EXPECT_EQ(json::GetString(Read(kJobs, "train"), {"status", "succeededRanks"}), "0-2");
  ExpectNoPodMadeTwice();
}

TEST_F(JobTest, SaysWhatHappenedInEvents) {
  Create(Job(1));
  WaitForRunningAttempt(1, 1);
  EndAll(1, 1, 0);
  WaitForPhase("Succeeded");
  const kube::Resource events{"events.k8s.io", "v1", "events", "Event"};
  std::string reasons;
  EXPECT_TRUE(Eventually(kLongest, [&] {
    reasons.clear();
    auto page = admin_.List(events, namespace_, {});
    for (const Json& event : page ? page->items : std::vector<Json>{}) {
      reasons += json::GetString(event, {"reason"}) + " ";
      EXPECT_EQ(json::GetString(event, {"regarding", "name"}), "train");
    }
    return reasons.find(api::kReasonSucceeded) != std::string::npos &&
           reasons.find(api::kReasonCreated) != std::string::npos;
  })) << reasons;
}

TEST_F(JobTest, WhatHappensAgainIsCountedInItsEvent) {
  Create(Job(1));
  WaitForRunningAttempt(1, 1);
  for (const int attempt : {2, 3}) {
    Change({{"suspend", true}});
    WaitForPhase("Suspended");
    Change({{"suspend", false}});
    WaitForRunningAttempt(attempt, 1);
  }
  const kube::Resource events{"events.k8s.io", "v1", "events", "Event"};
  Json resumed = Json::array();
  EXPECT_TRUE(Eventually(kLongest, [&] {
    resumed.clear();
    auto page = admin_.List(events, namespace_, {});
    for (const Json& event : page ? page->items : std::vector<Json>{}) {
      if (event["reason"] == api::kReasonResumed) {
        resumed.push_back(event);
      }
    }
    return resumed.size() == 1 && json::GetInt(resumed[0], {"series", "count"}) == 2;
  })) << resumed;
}

TEST_F(JobTest, AFailedRankRestartsTheWholeGroupAndIsCountedOnce) {
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  ASSERT_TRUE(kubelet_->End(Pod(1, 1), 1));
  WaitForRunningAttempt(2, 2);
  EXPECT_EQ(Restarts("application"), 1);
  EXPECT_EQ(Restarts("infrastructure"), 0);
  const Json job = Read(kJobs, "train");
  EXPECT_EQ(job["status"]["failures"][0]["rank"], 1);
  EXPECT_EQ(job["status"]["failures"][0]["exitCode"], 1);
  EXPECT_EQ(job["status"]["failures"][0]["message"], "the last line of its log");
  EXPECT_EQ(EnvOf(Read(kPods, Pod(2, 0)), "MASTER_ADDR"), "train-2-0.train." + namespace_ + ".svc");
  EXPECT_EQ(EnvOf(Read(kPods, Pod(2, 0)), "TORCHELASTIC_RESTART_COUNT"), "1");
  WaitUntilGone(Pod(1, 0));
  EXPECT_FALSE(Read(kPods, Pod(1, 1)).empty()) << "the failed pod is kept for its log";
  EndAll(2, 2, 0);
  WaitForPhase("Succeeded");
  ExpectNoPodMadeTwice();
}

TEST_F(JobTest, APodDeletedByHandIsARestartThatDoesNotCount) {
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  kube::DeleteOptions grace;
  grace.grace_seconds = 1;
  ASSERT_TRUE(admin_.Delete(kPods, namespace_, Pod(1, 1), grace));
  WaitForRunningAttempt(2, 2);
  EXPECT_EQ(Restarts("application"), 0);
  EXPECT_EQ(Restarts("infrastructure"), 1);
  ExpectNoPodMadeTwice();
}

TEST_F(JobTest, FailsWhenItsRestartsAreUsed) {
  Create(Job(1, {{"restart", {{"maxRestarts", 0}}}}));
  WaitForRunningAttempt(1, 1);
  ASSERT_TRUE(kubelet_->End(Pod(1, 0), 65));
  WaitForPhase("Failed");
  EXPECT_EQ(Attempt(), 1);
}

TEST_F(JobTest, ATemplateThatTheServerRefusesIsAConditionWithItsSentence) {
  Json job = Job(8);
  job["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes";
  Create(job);
  WaitForPhase("Failed");
  EXPECT_THAT(json::Dump(Read(kJobs, "train")["status"]), HasSubstr("imagePullPolicy"));
  EXPECT_TRUE(kubelet_->Ever().empty());
  int attempts = 0;
  for (const auto& request : cluster_.OperatorRequests()) {
    attempts +=
        request.name_space == namespace_ && request.resource == "pods" && request.verb == "create";
  }
  EXPECT_EQ(attempts, 1);
}

TEST_F(JobTest, AForeignServiceIsAConditionUntilItIsGone) {
  const Json service = {{"apiVersion", "v1"},
                        {"kind", "Service"},
                        {"metadata", {{"name", "train"}}},
                        {"spec", {{"clusterIP", "None"}}}};
  ASSERT_TRUE(admin_.Create(kServices, namespace_, service));
  Create(Job(1));
  ASSERT_TRUE(Eventually(kLongest, [&] {
    return json::Dump(Read(kJobs, "train")).find(api::kReasonServiceNameTaken) != std::string::npos;
  }));
  EXPECT_TRUE(Eventually(kLongest, [&] { return Read(kPods, Pod(1, 0)).empty(); }))
      << "a pod that can do nothing holds its GPU";
  ASSERT_TRUE(admin_.Delete(kServices, namespace_, "train"));
  WaitForRunningAttempt(1, 1);
}

TEST_F(JobTest, AForeignPodOfItsNameIsPassedBy) {
  Json pod = {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", {{"name", Pod(1, 1)}}},
              {"spec", Job(1)["spec"]["template"]["spec"]}};
  const auto foreign = admin_.Create(kPods, namespace_, pod);
  ASSERT_TRUE(foreign) << foreign.error().message;
  Create(Job(2));
  WaitForRunningAttempt(2, 2);
  EXPECT_EQ(Restarts("application"), 0);
  const Json left = Read(kPods, Pod(1, 1));
  EXPECT_EQ(left["metadata"]["uid"], (*foreign)["metadata"]["uid"]);
  EXPECT_FALSE(left["metadata"].contains("deletionTimestamp"));
  EXPECT_TRUE(Eventually(kLongest, [&] { return Read(kPods, Pod(1, 0)).empty(); }))
      << "rank 0 of an attempt that can't be complete holds its GPU";
}

TEST_F(JobTest, ABusyJobCostsFewRequests) {
  Create(Job(32));
  WaitForRunningAttempt(1, 32);
  EndAll(1, 32, 0);
  WaitForPhase("Succeeded");
  int creates = 0;
  int status_writes = 0;
  int lists = 0;
  for (const auto& request : cluster_.OperatorRequests()) {
    if (request.name_space != namespace_) {
      continue;
    }
    creates += request.resource == "pods" && request.verb == "create";
    status_writes += request.resource == "ddpjobs/status";
    lists += request.verb == "list";
  }
  EXPECT_EQ(creates, 32);
  EXPECT_EQ(lists, 0);
  EXPECT_LE(status_writes, 12) << "ranks that are done are counts: bundled";
  ExpectNoPodMadeTwice();
}

TEST_F(JobTest, TheOperatorEndsOnSigtermInBoundedTime) {
  Create(Job(1));
  WaitForRunningAttempt(1, 1);
  operator_.process().Signal(SIGTERM);
  EXPECT_EQ(operator_.process().Wait(seconds(15)), 0) << operator_.Log();
}

TEST(OperatorStart, SaysWhatIsWrong) {
  Cluster& cluster = Cluster::Get();
  const std::string bad = cluster.FileName("bad.kubeconfig");
  WriteFile(bad, "current-context: nowhere\n");
  for (const std::string& path : {bad, bad + ".missing"}) {
    OperatorProcess broken(path);
    EXPECT_EQ(broken.process().Wait(seconds(15)), 1);
    EXPECT_THAT(broken.Log(), HasSubstr(path));
  }
}

}  // namespace
}  // namespace ddp::integration
