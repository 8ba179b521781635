#include "operator/ddpjob/builders.h"

#include <fmt/format.h>

#include "operator/api/names.h"
#include "operator/api/rank_env.h"
#include "operator/api/validate.h"
#include "operator/ddpjob/placement.h"

namespace ddp::job {
namespace {

using api::DDPJob;
using json::Json;

Json OwnedMetadata(const DDPJob& job, const std::string& name,
                   const std::map<std::string, std::string>& labels) {
  return {{"name", name},
          {"namespace", job.metadata.namespace_name},
          {"labels", labels},
          {"ownerReferences",
           {{{"apiVersion", api::kApiVersion},
             {"kind", api::kKind},
             {"name", job.metadata.name},
             {"uid", job.metadata.uid},
             {"controller", true},
             {"blockOwnerDeletion", false}}}}};
}

// The list at `field`, made when it is missing.
Json& List(Json& object, const char* field) {
  Json& list = object[field];
  if (!list.is_array()) {
    list = Json::array();
  }
  return list;
}

// Ours come first, so that the user's own values may refer to them: $(RANK).
void PrependEnv(Json& worker, const api::EnvList& ours) {
  Json merged = Json::array();
  for (const auto& [name, value] : ours) {
    merged.push_back({{"name", name}, {"value", value}});
  }
  for (Json& given : List(worker, "env")) {
    merged.push_back(std::move(given));
  }
  worker["env"] = std::move(merged);
}

void AddPort(Json& worker, const char* name, int port) {
  for (const Json& given : List(worker, "ports")) {
    const bool tcp = json::GetString(given, {"protocol"}, "TCP") == "TCP";
    if (json::GetString(given, {"name"}) == name ||
        (tcp && json::GetInt(given, {"containerPort"}) == port)) {
      return;
    }
  }
  worker["ports"].push_back({{"name", name}, {"containerPort", port}});
}

void AddVolumes(const DDPJob& job, int replica, Json& spec, Json& worker) {
  List(spec, "volumes")
      .push_back({{"name", api::kShmVolume},
                  {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", job.spec.shm_size}}}});
  List(worker, "volumeMounts").push_back({{"name", api::kShmVolume}, {"mountPath", api::kShmPath}});
  const auto& checkpoint = job.spec.checkpoint;
  if (!checkpoint || (replica != 0 && checkpoint->mount == api::CheckpointMount::kRank0)) {
    return;
  }
  spec["volumes"].push_back(
      {{"name", api::kCheckpointVolume},
       {"persistentVolumeClaim",
        {{"claimName", checkpoint->claim_template ? api::ClaimName(job.metadata.name)
                                                  : checkpoint->claim_name}}}});
  worker["volumeMounts"].push_back(
      {{"name", api::kCheckpointVolume}, {"mountPath", checkpoint->path}});
  Json& security = spec["securityContext"];
  if (!security.is_object()) {
    security = Json::object();
  }
  if (!security.contains("fsGroup")) {
    const auto group = json::GetInt(security, {"runAsGroup"}, api::kDefaultFsGroup);
    security["fsGroup"] = group;
    // Without this the kubelet walks the whole volume at every start.
    security.emplace("fsGroupChangePolicy", "OnRootMismatch");
  }
}

Json& Worker(Json& spec) {
  Json& containers = spec["containers"];
  for (Json& container : containers) {
    if (json::GetString(container, {"name"}) == api::kWorkerContainer) {
      return container;
    }
  }
  return containers.front();
}

}  // namespace

Json BuildPod(const DDPJob& job, int attempt, int replica) {
  return BuildPod(job, job.spec.pod_template.Parsed(), attempt, replica);
}

Json BuildPod(const DDPJob& job, const Json& pod_template, int attempt, int replica) {
  const std::string name = api::PodName(job.metadata.name, attempt, replica);
  Json labels = Json::object();
  if (const Json* given = json::Find(pod_template, {"metadata", "labels"});
      given != nullptr && given->is_object()) {
    labels = *given;
  }
  Json metadata = OwnedMetadata(
      job, name, api::PodLabels(job.metadata, attempt, replica, job.spec.processes_per_replica));
  labels.update(metadata["labels"]);
  metadata["labels"] = std::move(labels);
  if (const Json* given = json::Find(pod_template, {"metadata", "annotations"})) {
    metadata["annotations"] = *given;
  }

  Json spec = pod_template.at("spec");
  spec["restartPolicy"] = "Never";
  spec["hostname"] = name;
  spec["subdomain"] = job.metadata.name;
  spec.emplace("enableServiceLinks", false);
  Json& worker = Worker(spec);
  PrependEnv(worker, api::RankEnv(job, attempt, replica));
  AddPort(worker, api::kRendezvousPortName, job.spec.rendezvous_port);
  AddPort(worker, api::kProgressPortName, job.spec.progress.port);
  worker.emplace("terminationMessagePolicy", "FallbackToLogsOnError");
  AddVolumes(job, replica, spec, worker);
  Json pod = {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", std::move(metadata)},
              {"spec", std::move(spec)}};
  Place(job, attempt, pod);
  return pod;
}

Json BuildService(const DDPJob& job) {
  const auto labels = api::JobLabels(job.metadata);
  const auto port = [](const char* name, int number) -> Json {
    return {{"name", name}, {"port", number}, {"targetPort", number}, {"protocol", "TCP"}};
  };
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", OwnedMetadata(job, job.metadata.name, labels)},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", labels},
            {"ports",
             {port(api::kRendezvousPortName, job.spec.rendezvous_port),
              port(api::kProgressPortName, job.spec.progress.port)}}}}};
}

Json BuildClaim(const DDPJob& job) {
  const api::Checkpoint& checkpoint = *job.spec.checkpoint;
  const Json given = checkpoint.claim_template->Parsed();
  // A claim that stays is known by the job's name alone: the next job of that name goes on with it.
  Json metadata = OwnedMetadata(job, api::ClaimName(job.metadata.name), {});
  if (checkpoint.retain == api::Retain::kKeep) {
    metadata.erase("ownerReferences");
  }
  for (const char* field : {"labels", "annotations"}) {
    if (const Json* values = json::Find(given, {"metadata", field}); values != nullptr) {
      metadata[field] = *values;
    }
  }
  metadata["labels"][api::kJobNameLabel] = job.metadata.name;
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeClaim"},
          {"metadata", std::move(metadata)},
          {"spec", given.at("spec")}};
}

Json BuildNetworkPolicy(const DDPJob& job, const std::vector<std::string>& namespaces) {
  const auto labels = api::JobLabels(job.metadata);
  const Json own = {{"podSelector", {{"matchLabels", labels}}}};
  Json ingress = {{{"from", {own}}}};
  if (!namespaces.empty()) {
    const int first = job.spec.progress.port;
    ingress.push_back({{"from",
                        {{{"namespaceSelector",
                           {{"matchExpressions",
                             {{{"key", "kubernetes.io/metadata.name"},
                               {"operator", "In"},
                               {"values", namespaces}}}}}}}}},
                       {"ports",
                        {{{"protocol", "TCP"},
                          {"port", first},
                          {"endPort", first + job.spec.processes_per_replica - 1}}}}});
  }
  return {{"apiVersion", "networking.k8s.io/v1"},
          {"kind", "NetworkPolicy"},
          {"metadata", OwnedMetadata(job, job.metadata.name, labels)},
          {"spec",
           {{"podSelector", {{"matchLabels", labels}}},
            {"policyTypes", {"Ingress"}},
            {"ingress", std::move(ingress)}}}};
}

Json BuildPodGroup(const DDPJob& job, int attempt, const std::string& version) {
  auto labels = api::JobLabels(job.metadata);
  labels[api::kAttemptLabel] = fmt::format("{}", attempt);
  Json spec = {{"schedulingPolicy", {{"gang", {{"minCount", job.spec.replicas}}}}}};
  const std::string& priority = job.spec.pod_template.priority_class();
  if (!priority.empty()) {
    spec["priorityClassName"] = priority;
  }
  return {{"apiVersion", "scheduling.k8s.io/" + version},
          {"kind", "PodGroup"},
          {"metadata", OwnedMetadata(job, api::PodGroupName(job.metadata.name, attempt), labels)},
          {"spec", std::move(spec)}};
}

}  // namespace ddp::job
