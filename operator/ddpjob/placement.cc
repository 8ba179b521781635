#include "operator/ddpjob/placement.h"

#include <fmt/format.h>

#include "operator/api/names.h"

namespace ddp::job {
namespace {

using json::Json;

constexpr const char* kHostnameKey = "kubernetes.io/hostname";
constexpr int kWeight = 100;  // the most that a preference can have

// https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods: a group of plain pods.
constexpr const char* kKueueQueue = "kueue.x-k8s.io/queue-name";
constexpr const char* kKueueGroup = "kueue.x-k8s.io/pod-group-name";
constexpr const char* kKueueCount = "kueue.x-k8s.io/pod-group-total-count";
// A failed pod is not replaced within its group: the next attempt is another group.
constexpr const char* kKueueRetriable = "kueue.x-k8s.io/retriable-in-group";

// The object or list at a key, made when it is missing or null.
Json& At(Json& object, const char* key, const Json& fresh) {
  Json& value = object[key];
  if (value.is_null()) {
    value = fresh;
  }
  return value;
}

Json Term(const std::map<std::string, std::string>& labels, const std::string& key) {
  return {{"labelSelector", {{"matchLabels", labels}}}, {"topologyKey", key}};
}

void Require(Json& spec, const char* kind, Json term) {
  Json& affinity = At(At(spec, "affinity", Json::object()), kind, Json::object());
  At(affinity, "requiredDuringSchedulingIgnoredDuringExecution", Json::array())
      .push_back(std::move(term));
}

void Prefer(Json& spec, const char* kind, Json term) {
  Json& affinity = At(At(spec, "affinity", Json::object()), kind, Json::object());
  At(affinity, "preferredDuringSchedulingIgnoredDuringExecution", Json::array())
      .push_back({{"weight", kWeight}, {"podAffinityTerm", std::move(term)}});
}

}  // namespace

void Place(const api::DDPJob& job, int attempt, Json& pod) {
  const api::Scheduling& scheduling = job.spec.scheduling;
  Json& spec = pod["spec"];
  Json& metadata = pod["metadata"];
  if (json::GetBool(spec, {"hostNetwork"})) {
    spec.emplace("dnsPolicy", "ClusterFirstWithHostNet");
    Require(spec, "podAntiAffinity", Term(api::JobLabels(job.metadata), kHostnameKey));
  }
  if (!scheduling.topology_key.empty()) {
    // Of this attempt alone: what is left of the last one must not hold it in a place that is full.
    auto labels = api::JobLabels(job.metadata);
    labels[api::kAttemptLabel] = fmt::format("{}", attempt);
    Json term = Term(labels, scheduling.topology_key);
    if (scheduling.topology_mode == api::TopologyMode::kRequired) {
      Require(spec, "podAffinity", std::move(term));
    } else {
      Prefer(spec, "podAffinity", std::move(term));
    }
  }
  const std::string group = api::PodGroupName(job.metadata.name, attempt);
  if (!scheduling.queue.empty()) {
    metadata["labels"][kKueueQueue] = scheduling.queue;
    metadata["labels"][kKueueGroup] = group;
    Json& annotations = At(metadata, "annotations", Json::object());
    annotations[kKueueCount] = fmt::format("{}", job.spec.replicas);
    annotations[kKueueRetriable] = "false";
  }
  if (scheduling.gang == api::Gang::kKubernetes) {
    spec["schedulingGroup"] = {{"podGroupName", group}};
  }
}

}  // namespace ddp::job
