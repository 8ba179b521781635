#include "operator/ddpjob/builders.h"

#include <gtest/gtest.h>

#include "operator/ddpjob/testing.h"

namespace ddp::job {
namespace {

using json::GetString;
using json::Json;
using testing::EditPod;
using testing::MakeJob;

api::DDPJob FullJob() {
  api::DDPJob job = MakeJob(2);
  job.spec.checkpoint = {.path = "/ckpt", .claim_name = "claim"};
  job.spec.pod_template = api::PodTemplate(*json::Parse(R"json({
    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
    "spec": {
      "nodeSelector": {"gpu": "h200"},
      "containers": [
        {"name": "side", "image": "s"},
        {"name": "worker", "image": "w", "command": ["train"],
         "env": [{"name": "WHO", "value": "$(RANK)"
}],
         "ports": [{"containerPort": 9410, "name": "metrics"}],
         "volumeMounts": [{"name": "data", "mountPath": "/data"}]
}],
      "volumes": [{"name": "data", "emptyDir": {}}]
}
})json"));
  return job;
}

const Json& WorkerOf(const Json& pod) { return pod["spec"]["containers"][1]; }

TEST(BuildPod, IsTheTemplatePlusWhatTheOperatorOwns) {
  const Json pod = BuildPod(FullJob(), 3, 1);
  EXPECT_EQ(pod["metadata"]["name"], "mnist-3-1");
  EXPECT_EQ(pod["metadata"]["labels"], Json({{"team", "a"},
                                             {"ddpjob.dev/job-name", "mnist"},
                                             {"ddpjob.dev/job-uid", "job-uid"},
                                             {"ddpjob.dev/attempt", "3"},
                                             {"ddpjob.dev/replica", "1"},
                                             {"ddpjob.dev/rank", "1"}}));
  EXPECT_EQ(pod["metadata"]["annotations"]["note"], "b");
  const Json& owner = pod["metadata"]["ownerReferences"][0];
  EXPECT_EQ(owner["uid"], "job-uid");
  EXPECT_EQ(owner["controller"], true);
  EXPECT_EQ(owner["blockOwnerDeletion"], false);
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(pod["spec"]["hostname"], "mnist-3-1");
  EXPECT_EQ(pod["spec"]["subdomain"], "mnist");
  EXPECT_EQ(pod["spec"]["enableServiceLinks"], false);
  EXPECT_EQ(pod["spec"]["nodeSelector"]["gpu"], "h200");
  EXPECT_EQ(WorkerOf(pod)["terminationMessagePolicy"], "FallbackToLogsOnError");
  EXPECT_EQ(pod["spec"]["containers"][0], Json({{"name", "side"}, {"image", "s"}}));
}

TEST(BuildPod, PutsTheRanksVariablesBeforeTheUsers) {
  const Json pod = BuildPod(FullJob(), 3, 1);
  const Json& env = WorkerOf(pod)["env"];
  EXPECT_EQ(env.front(), Json({{"name", "RANK"}, {"value", "1"}}));
  EXPECT_EQ(env.back(), Json({{"name", "WHO"}, {"value", "$(RANK)"}}));
}

TEST(BuildPod, MountsSharedMemoryAndTheClaimWhereItBelongs) {
  api::DDPJob job = FullJob();
  const auto mounts = [&job](int rank) {
    const Json pod = BuildPod(job, 1, rank);
    std::string names;
    for (const Json& mount : WorkerOf(pod)["volumeMounts"]) {
      names += GetString(mount, {"name"}) + "@" + GetString(mount, {"mountPath"}) + " ";
    }
    return names;
  };
  EXPECT_EQ(mounts(0), "data@/data ddp-shm@/dev/shm ddp-checkpoint@/ckpt ");
  EXPECT_EQ(mounts(1), "data@/data ddp-shm@/dev/shm ");
  job.spec.checkpoint->mount = api::CheckpointMount::kAll;
  EXPECT_EQ(mounts(1), "data@/data ddp-shm@/dev/shm ddp-checkpoint@/ckpt ");
  const Json pod = BuildPod(job, 1, 0);
  EXPECT_EQ(pod["spec"]["securityContext"]["fsGroup"], api::kDefaultFsGroup);
  EXPECT_EQ(pod["spec"]["volumes"][1]["emptyDir"],
            Json({{"medium", "Memory"}, {"sizeLimit", "1Gi"}}));
}

TEST(BuildPod, LeavesTheUsersChoices) {
  api::DDPJob job = FullJob();
  EditPod(job.spec, [](Json& spec) {
    spec["enableServiceLinks"] = true;
    spec["securityContext"] = {{"fsGroup", 7}};
    spec["containers"][1]["terminationMessagePolicy"] = "File";
  });
  const Json pod = BuildPod(job, 1, 0);
  EXPECT_EQ(pod["spec"]["enableServiceLinks"], true);
  EXPECT_EQ(pod["spec"]["securityContext"], Json({{"fsGroup", 7}}));
  EXPECT_EQ(WorkerOf(pod)["terminationMessagePolicy"], "File");
  ASSERT_EQ(WorkerOf(pod)["ports"].size(), 2U) << "9410 was there already";
  EXPECT_EQ(WorkerOf(pod)["ports"][1]["name"], "ddp-rendezvous");
}

TEST(BuildService, IsHeadlessAndPublishesEarly) {
  const Json service = BuildService(FullJob());
  EXPECT_EQ(service["metadata"]["name"], "mnist");
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  EXPECT_EQ(service["spec"]["selector"],
            Json({{"ddpjob.dev/job-name", "mnist"}, {"ddpjob.dev/job-uid", "job-uid"}}));
  EXPECT_EQ(service["spec"]["ports"][0]["port"], 29500);
}

struct ReadCase {
  const char* name;
  const char* status;
  PodPhase phase;
  bool started;
  std::optional<int> exit_code;
  const char* reason;
  const char* message;
};

class ReadPodTable : public ::testing::TestWithParam<ReadCase> {};

TEST_P(ReadPodTable, Holds) {
  const ReadCase& c = GetParam();
  Json pod = BuildPod(FullJob(), 3, 1);
  pod["metadata"]["uid"] = "u";
  pod["status"] = *json::Parse(c.status);
  const auto record = ReadPod(pod);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->name, "mnist-3-1");
  EXPECT_EQ(record->attempt, 3);
  EXPECT_EQ(record->rank, 1);
  EXPECT_EQ(record->phase, c.phase);
  EXPECT_EQ(record->started, c.started);
  EXPECT_EQ(record->exit_code, c.exit_code);
  EXPECT_EQ(record->reason, c.reason);
  EXPECT_EQ(record->message, c.message);
}

INSTANTIATE_TEST_SUITE_P(
    Statuses, ReadPodTable,
    ::testing::Values(
        ReadCase{"empty", "{}", PodPhase::kPending, false, {}, "", ""},
        ReadCase{"unschedulable",
                 R"({"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",
                     "reason":"Unschedulable","message":"0/1 nodes"}]})",
                 PodPhase::kPending,
                 false,
                 {},
                 "Unschedulable",
                 "0/1 nodes"},
        ReadCase{"creating",
                 R"({"phase":"Pending","containerStatuses":[{"name":"worker",
                     "state":{"waiting":{"reason":"ContainerCreating"}}}]})",
                 PodPhase::kPending,
                 false,
                 {},
                 "",
                 ""},
        ReadCase{"image",
                 R"({"phase":"Pending","containerStatuses":[{"name":"worker",
                     "state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]})",
                 PodPhase::kPending,
                 false,
                 {},
                 "ImagePullBackOff",
                 "no such image"},
        ReadCase{"running",
                 R"({"phase":"Running","containerStatuses":[{"name":"side","state":{}},
                     {"name":"worker","state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}}}]})",
                 PodPhase::kRunning,
                 true,
                 {},
                 "",
                 ""},
        ReadCase{"worker_done_sidecar_runs",
                 R"({"phase":"Running","containerStatuses":[{"name":"worker","state":{"terminated":
                     {"exitCode":0,"reason":"Completed","startedAt":"2026-01-02T03:04:05Z"}}}]})",
                 PodPhase::kRunning, true, 0, "Completed", ""},
        ReadCase{"oom",
                 R"({"phase":"Failed","containerStatuses":[{"name":"worker","state":{"terminated":
                     {"exitCode":137,"reason":"OOMKilled","message":"m",
                      "startedAt":"2026-01-02T03:04:05Z"}}}]})",
                 PodPhase::kFailed, true, 137, "OOMKilled", "m"},
        ReadCase{"evicted",
                 R"({"phase":"Failed","reason":"Evicted","message":"disk pressure"})",
                 PodPhase::kFailed,
                 false,
                 {},
                 "Evicted",
                 "disk pressure"},
        ReadCase{"init_failed",
                 R"({"phase":"Failed","initContainerStatuses":[{"name":"i","state":{"terminated":
                     {"exitCode":2,"reason":"Error","message":"init says no"}}}]})",
                 PodPhase::kFailed,
                 false,
                 {},
                 "Error",
                 "init says no"}),
    [](const auto& c) { return c.param.name; });

TEST(ReadPod, TellsWhetherOtherContainersHaveEndedToo) {
  Json pod = BuildPod(FullJob(), 3, 1);
  pod["spec"]["containers"] = Json::array({{{"name", "worker"}}, {{"name", "sidecar"}}});
  const Json ended = {{"terminated", {{"exitCode", 0}}}};
  pod["status"] = {{"phase", "Running"},
                   {"containerStatuses", {{{"name", "worker"}, {"state", ended}}}}};
  EXPECT_FALSE(ReadPod(pod)->ended()) << "the other has not even begun";
  Json& statuses = pod["status"]["containerStatuses"];
  statuses.push_back({{"name", "sidecar"}, {"state", {{"running", Json::object()}}}});
  EXPECT_TRUE(ReadPod(pod)->succeeded());
  EXPECT_FALSE(ReadPod(pod)->ended());
  statuses[1]["state"] = ended;
  EXPECT_TRUE(ReadPod(pod)->ended());
  EXPECT_FALSE(ReadPod(pod)->terminated());
  statuses[0]["state"] = {{"running", Json::object()}};
  EXPECT_FALSE(ReadPod(pod)->ended());
}

TEST(ReadPod, SkipsPodsWithoutOurLabels) {
  Json pod = BuildPod(FullJob(), 3, 1);
  pod["metadata"]["labels"].erase("ddpjob.dev/replica");
  EXPECT_FALSE(ReadPod(pod));
  pod["metadata"]["labels"]["ddpjob.dev/replica"] = "x";
  EXPECT_FALSE(ReadPod(pod));
}

TEST(ReadPod, ReadsMarksAndTimes) {
  Json pod = BuildPod(FullJob(), 3, 1);
  pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z";
  pod["spec"]["nodeName"] = "n1";
  pod["status"] = *json::Parse(R"({"phase":"Running","conditions":[
      {"type":"Ready","status":"True"},
      {"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler"}]})");
  const auto record = ReadPod(pod);
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->ready);
  EXPECT_EQ(record->disruption, "PreemptionByScheduler");
  EXPECT_EQ(record->node, "n1");
  EXPECT_EQ(record->deletion_time, *base::ParseTime("2026-01-02T03:04:05Z"));
}

TEST(ReadPod, ReadsKueuesMarkAsADisruption) {
  Json pod = BuildPod(FullJob(), 3, 1);
  pod["status"] = *json::Parse(R"({"phase":"Running","conditions":[
      {"type":"TerminationTarget","status":"True","reason":"WorkloadEvictedDueToPreempted"}]})");
  EXPECT_EQ(ReadPod(pod)->disruption, "WorkloadEvictedDueToPreempted");
}

TEST(ReadPod, TakesNoAddressOfANodeForThePods) {
  Json pod = BuildPod(FullJob(), 3, 1);
  pod["status"]["podIP"] = "10.0.0.7";
  EXPECT_EQ(ReadPod(pod)->ip, "10.0.0.7");
  pod["spec"]["hostNetwork"] = true;
  EXPECT_EQ(ReadPod(pod)->ip, "");
}

}  // namespace
}  // namespace ddp::job
