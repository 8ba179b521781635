#include "operator/ddpjob/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/ddpjob/builders.h"
#include "operator/ddpjob/testing.h"

namespace ddp::job {
namespace {

using json::Json;
using testing::EditPod;
using testing::MakeJob;

Json At(const Json& object, const char* pointer) {
  return object.value(Json::json_pointer(pointer), Json());
}

constexpr const char* kApart =
    "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
constexpr const char* kTogether =
    "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution";
constexpr const char* kRather =
    "/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution";

TEST(Place, LeavesAPlainPodAlone) {
  const Json pod = BuildPod(MakeJob(), 1, 0);
  for (const char* field : {"affinity", "dnsPolicy", "schedulingGroup"}) {
    EXPECT_FALSE(pod["spec"].contains(field)) << field;
  }
}

TEST(Place, PodsOnTheHostsNetworkStayApart) {
  api::DDPJob job = MakeJob();
  EditPod(job.spec, [](Json& given) { given["hostNetwork"] = true; });
  const Json pod = BuildPod(job, 3, 0);
  EXPECT_EQ(pod["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
  EXPECT_EQ(
      At(pod, kApart),
      Json::array({{{"topologyKey", "kubernetes.io/hostname"},
                    {"labelSelector",
                     {{"matchLabels",
                       {{"ddpjob.dev/job-name", "mnist"}, {"ddpjob.dev/job-uid", "job-uid"}}}}}}}));
  EditPod(job.spec, [](Json& given) { given["dnsPolicy"] = "Default"; });
  EXPECT_EQ(BuildPod(job, 3, 0)["spec"]["dnsPolicy"], "Default") << "the user's word";
}

TEST(Place, ATopologyKeyIsAWishOrACondition) {
  api::DDPJob job = MakeJob();
  job.spec.scheduling.topology_key = "rack";
  EditPod(job.spec, [](Json& given) { given["affinity"] = {{"nodeAffinity", {{"a", 1}}}}; });
  Json pod = BuildPod(job, 3, 0);
  EXPECT_EQ(At(pod, kRather)[0]["weight"], 100);
  EXPECT_EQ(At(pod, kRather)[0]["podAffinityTerm"]["topologyKey"], "rack");
  EXPECT_EQ(
      At(pod, kRather)[0]["podAffinityTerm"]["labelSelector"]["matchLabels"]["ddpjob.dev/attempt"],
      "3");
  EXPECT_EQ(At(pod, "/spec/affinity/nodeAffinity/a"), 1) << "the user's affinity stays";
  job.spec.scheduling.topology_mode = api::TopologyMode::kRequired;
  pod = BuildPod(job, 3, 0);
  EXPECT_EQ(At(pod, kTogether)[0]["topologyKey"], "rack");
  EXPECT_TRUE(At(pod, kRather).is_null());
}

TEST(Place, AQueueGetsKueuesGroup) {
  api::DDPJob job = MakeJob(5);
  job.spec.scheduling.queue = "gpus";
  const Json metadata = BuildPod(job, 3, 0)["metadata"];
  EXPECT_EQ(metadata["labels"]["kueue.x-k8s.io/queue-name"], "gpus");
  EXPECT_EQ(metadata["labels"]["kueue.x-k8s.io/pod-group-name"], "mnist-3");
  EXPECT_EQ(metadata["annotations"]["kueue.x-k8s.io/pod-group-total-count"], "5");
  EXPECT_EQ(metadata["annotations"]["kueue.x-k8s.io/retriable-in-group"], "false");
}

TEST(Place, AGangNamesThePodGroupOfItsAttempt) {
  api::DDPJob job = MakeJob(5);
  job.spec.scheduling.gang = api::Gang::kKubernetes;
  EditPod(job.spec, [](Json& given) { given["priorityClassName"] = "high"; });
  const Json pod = BuildPod(job, 3, 0);
  EXPECT_EQ(pod["spec"]["schedulingGroup"]["podGroupName"], "mnist-3");
  EXPECT_EQ(pod["spec"]["priorityClassName"], "high");
  const Json group = BuildPodGroup(job, 3, "v1alpha2");
  EXPECT_EQ(group["apiVersion"], "scheduling.k8s.io/v1alpha2");
  EXPECT_EQ(group["metadata"]["name"], "mnist-3");
  EXPECT_EQ(group["metadata"]["ownerReferences"][0]["uid"], "job-uid");
  EXPECT_EQ(group["spec"], Json({{"schedulingPolicy", {{"gang", {{"minCount", 5}}}}},
                                 {"priorityClassName", "high"}}));
}

api::DDPJob ClaimJob(api::Retain retain) {
  api::DDPJob job = MakeJob();
  job.spec.checkpoint = {.path = "/ckpt", .claim_name = "", .retain = retain};
  job.spec.checkpoint->claim_template.emplace(
      Json{{"metadata", {{"labels", {{"team", "a"}}}}},
           {"spec", {{"accessModes", {"ReadWriteOnce"}}, {"storageClassName", "fast"}}}});
  return job;
}

TEST(BuildClaim, OutlivesTheJobUnlessSaid) {
  const Json kept = BuildClaim(ClaimJob(api::Retain::kKeep));
  EXPECT_EQ(kept["metadata"]["name"], "mnist-checkpoint");
  EXPECT_EQ(kept["metadata"]["labels"], Json({{"team", "a"}, {"ddpjob.dev/job-name", "mnist"}}));
  EXPECT_FALSE(kept["metadata"].contains("ownerReferences"));
  EXPECT_EQ(kept["spec"]["storageClassName"], "fast");
  const Json dropped = BuildClaim(ClaimJob(api::Retain::kDelete));
  EXPECT_EQ(dropped["metadata"]["ownerReferences"][0]["uid"], "job-uid");
  const Json pod = BuildPod(ClaimJob(api::Retain::kKeep), 1, 0);
  EXPECT_EQ(pod["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"], "mnist-checkpoint");
  EXPECT_EQ(pod["spec"]["securityContext"]["fsGroup"], api::kDefaultFsGroup);
}

TEST(BuildNetworkPolicy, LetsInTheJobAndTheReadersOfProgress) {
  api::DDPJob job = MakeJob();
  job.spec.processes_per_replica = 8;
  const Json labels = {{"ddpjob.dev/job-name", "mnist"}, {"ddpjob.dev/job-uid", "job-uid"}};
  const Json policy = BuildNetworkPolicy(job, {"ddp-system", "monitoring"});
  EXPECT_EQ(policy["spec"]["podSelector"]["matchLabels"], labels);
  EXPECT_EQ(policy["spec"]["policyTypes"], Json({"Ingress"}));
  const Json& ingress = policy["spec"]["ingress"];
  ASSERT_EQ(ingress.size(), 2U);
  EXPECT_EQ(ingress[0],
            Json({{"from", Json::array({{{"podSelector", {{"matchLabels", labels}}}}})}}));
  EXPECT_EQ(ingress[1]["ports"],
            Json::array({{{"protocol", "TCP"}, {"port", 9410}, {"endPort", 9417}}}));
  EXPECT_EQ(At(ingress[1], "/from/0/namespaceSelector/matchExpressions/0/values"),
            Json({"ddp-system", "monitoring"}));
  EXPECT_EQ(BuildNetworkPolicy(job, {})["spec"]["ingress"].size(), 1U);
}

}  // namespace
}  // namespace ddp::job
