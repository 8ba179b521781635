// Spec and metadata from JSON, and a spec as JSON. Status is in status_json.cc.
#include "operator/api/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "operator/api/object_reader.h"

namespace ddp::api {
namespace {

constexpr std::array kMounts = {CheckpointMount::kRank0, CheckpointMount::kAll};
constexpr std::array kRetains = {Retain::kKeep, Retain::kDelete};
constexpr std::array kActions = {FailureAction::kFail, FailureAction::kRestart,
                                 FailureAction::kRestartUncounted};
constexpr std::array kStallActions = {OnStall::kRestart, OnStall::kFail, OnStall::kReport};
constexpr std::array kCleanPolicies = {CleanPodPolicy::kNone, CleanPodPolicy::kRunning,
                                       CleanPodPolicy::kAll};
constexpr std::array kGangs = {Gang::kNone, Gang::kKubernetes};
constexpr std::array kTopologyModes = {TopologyMode::kPreferred, TopologyMode::kRequired};

std::optional<TimePoint> TimeAt(const Json& object, std::string_view field) {
  const auto time = base::ParseTime(json::GetString(object, {field}));
  return time ? std::optional(*time) : std::nullopt;
}

Metadata ReadMetadata(const Json& object, std::vector<Problem>& problems) {
  Metadata metadata;
  const Json* json = json::Find(object, {"metadata"});
  if (json == nullptr || !json->is_object()) {
    problems.push_back({"metadata", "is missing: give at least metadata.name"});
    return metadata;
  }
  metadata.name = json::GetString(*json, {"name"});
  metadata.namespace_name = json::GetString(*json, {"namespace"}, "default");
  metadata.uid = json::GetString(*json, {"uid"});
  metadata.resource_version = json::GetString(*json, {"resourceVersion"});
  metadata.generation = json::GetInt(*json, {"generation"});
  metadata.creation_time = TimeAt(*json, "creationTimestamp");
  metadata.deletion_time = TimeAt(*json, "deletionTimestamp");
  if (const Json* annotations = json::Find(*json, {"annotations"}); annotations != nullptr) {
    metadata.restart_requested = TimeAt(*annotations, kRestartAnnotation);
  }
  if (metadata.name.empty()) {
    problems.push_back({"metadata.name", "is missing: name the job"});
  }
  return metadata;
}

bool AsksReadWriteMany(const Json& claim_template) {
  const Json* modes = json::Find(claim_template, {"spec", "accessModes"});
  return modes != nullptr && modes->is_array() &&
         std::find(modes->begin(), modes->end(), "ReadWriteMany") != modes->end();
}

void ReadClaimTemplate(const ObjectReader& checkpoint, Checkpoint& out,
                       std::vector<Problem>& problems) {
  const std::string path = checkpoint.path() + ".claimTemplate";
  ObjectReader reader(checkpoint.object(), "claimTemplate", path, problems);
  if (!reader.present()) {
    return;
  }
  out.claim_template.emplace(reader.object());
  const ObjectReader metadata(reader.object(), "metadata", path + ".metadata", problems);
  ObjectReader spec(reader.object(), "spec", path + ".spec", problems);
  reader.Require("spec", "what a PersistentVolumeClaim has there");
  if (spec.present()) {
    spec.Require("accessModes", "such as [ReadWriteOnce] or [ReadWriteMany]");
    spec.Require("resources", "such as {requests: {storage: 10Gi}}");
  }
}

void ReadCheckpoint(const ObjectReader& spec, Spec& out, std::vector<Problem>& problems) {
  ObjectReader reader(spec.object(), "checkpoint", "spec.checkpoint", problems);
  if (!reader.present()) {
    return;
  }
  Checkpoint& checkpoint = out.checkpoint.emplace();
  reader.Require("path", "the folder in the pod where the claim is mounted");
  reader.Text("path", checkpoint.path);
  reader.Text("claimName", checkpoint.claim_name);
  ReadClaimTemplate(reader, checkpoint, problems);
  const bool named = reader.Get("claimName") != nullptr;
  const bool templated = reader.Get("claimTemplate") != nullptr;
  if (!named && !templated) {
    reader.Note("claimName",
                "is missing: name the PersistentVolumeClaim that keeps the checkpoints, or give "
                "claimTemplate for one to be made");
  } else if (named && templated) {
    reader.Note("claimName", "must not be given together with claimTemplate: keep one of them");
  }
  reader.Enum<Retain>("retain", kRetains, checkpoint.retain);
  if (reader.Get("retain") != nullptr && !templated) {
    reader.Note("retain", "is for a claim from claimTemplate: the one that claimName names stays");
  }
  // A claim by name may allow one node only; what its access modes are is not known here.
  const bool shared =
      checkpoint.claim_template && AsksReadWriteMany(checkpoint.claim_template->Parsed());
  checkpoint.mount = shared || out.replicas == 1 ? CheckpointMount::kAll : CheckpointMount::kRank0;
  reader.Enum<CheckpointMount>("mount", kMounts, checkpoint.mount);
}

void ReadRules(const ObjectReader& restart, Restart& out, std::vector<Problem>& problems) {
  const Json* list = restart.Get("rules");
  if (list == nullptr) {
    return;
  }
  if (!list->is_array()) {
    problems.push_back({"spec.restart.rules", "must be a list"});
    return;
  }
  for (size_t i = 0; i < list->size(); ++i) {
    ObjectReader reader(problems, (*list)[i], "spec.restart.rules",
                        fmt::format("spec.restart.rules[{}]", i));
    RestartRule rule;
    reader.Ints("exitCodes", rule.exit_codes);
    reader.Texts("reasons", rule.reasons);
    if (reader.present()) {
      reader.Require("action", "Fail, Restart or RestartUncounted");
    }
    reader.Enum<FailureAction>("action", kActions, rule.action);
    out.rules.push_back(std::move(rule));
  }
}

void ReadRestart(const ObjectReader& spec, Spec& out, std::vector<Problem>& problems) {
  Restart& restart = out.restart;
  restart.grace_period_seconds = static_cast<int>(
      std::clamp<int64_t>(out.pod_template.grace_period_seconds().value_or(kKubernetesGraceSeconds),
                          0, kDefaultGraceSeconds));
  ObjectReader reader(spec.object(), "restart", "spec.restart", problems);
  reader.Int("maxRestarts", restart.max_restarts);
  reader.Int("maxUncountedRestarts", restart.max_uncounted_restarts);
  reader.Int("backoffSeconds", restart.backoff_seconds);
  reader.Int("maxBackoffSeconds", restart.max_backoff_seconds);
  reader.Int("gracePeriodSeconds", restart.grace_period_seconds);
  ReadRules(reader, restart, problems);
}

void ReadProgress(const ObjectReader& spec, ProgressSpec& out, std::vector<Problem>& problems) {
  ObjectReader reader(spec.object(), "progress", "spec.progress", problems);
  reader.Int("port", out.port);
  reader.Int("stallTimeoutSeconds", out.stall_timeout_seconds);
  reader.Enum<OnStall>("onStall", kStallActions, out.on_stall);
}

void ReadScheduling(const ObjectReader& spec, Scheduling& out, std::vector<Problem>& problems) {
  ObjectReader reader(spec.object(), "scheduling", "spec.scheduling", problems);
  reader.Enum<Gang>("gang", kGangs, out.gang);
  reader.Text("queue", out.queue);
  reader.Text("topologyKey", out.topology_key);
  reader.Enum<TopologyMode>("topologyMode", kTopologyModes, out.topology_mode);
}

Spec ReadSpec(const Json& object, std::vector<Problem>& problems) {
  Spec spec;
  ObjectReader reader(object, "spec", "spec", problems);
  if (!reader.present()) {
    problems.push_back({"spec", "is missing: give spec.replicas and spec.template"});
    return spec;
  }
  reader.Require("replicas", "how many pods train");
  reader.Int("replicas", spec.replicas);
  reader.Int("processesPerReplica", spec.processes_per_replica);
  reader.Require("template", "the pod that each rank runs in");
  const ObjectReader pod_template(reader.object(), "template", "spec.template", problems);
  if (pod_template.present()) {
    spec.pod_template = PodTemplate(pod_template.object());
  }
  ObjectReader rendezvous(reader.object(), "rendezvous", "spec.rendezvous", problems);
  rendezvous.Int("port", spec.rendezvous_port);
  ReadCheckpoint(reader, spec, problems);
  ReadRestart(reader, spec, problems);
  reader.Int("startupTimeoutSeconds", spec.startup_timeout_seconds);
  ReadProgress(reader, spec.progress, problems);
  reader.Bool("suspend", spec.suspend);
  reader.Int("activeDeadlineSeconds", spec.active_deadline_seconds);
  reader.Int("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished);
  reader.Enum<CleanPodPolicy>("cleanPodPolicy", kCleanPolicies, spec.clean_pod_policy);
  reader.Text("managedBy", spec.managed_by);
  ReadScheduling(reader, spec.scheduling, problems);
  ObjectReader shm(reader.object(), "shm", "spec.shm", problems);
  shm.Text("size", spec.shm_size);
  return spec;
}

Json ToJson(const Restart& restart) {
  Json json = {{"maxRestarts", restart.max_restarts},
               {"maxUncountedRestarts", restart.max_uncounted_restarts},
               {"backoffSeconds", restart.backoff_seconds},
               {"maxBackoffSeconds", restart.max_backoff_seconds},
               {"gracePeriodSeconds", restart.grace_period_seconds}};
  for (const RestartRule& rule : restart.rules) {
    Json item = {{"action", Name(rule.action)}};
    if (!rule.exit_codes.empty()) {
      item["exitCodes"] = rule.exit_codes;
    }
    if (!rule.reasons.empty()) {
      item["reasons"] = rule.reasons;
    }
    json["rules"].push_back(std::move(item));
  }
  return json;
}

Json ToJson(const Checkpoint& checkpoint) {
  Json json = {{"path", checkpoint.path}, {"mount", Name(checkpoint.mount)}};
  if (checkpoint.claim_template) {
    json["claimTemplate"] = checkpoint.claim_template->Parsed();
    json["retain"] = Name(checkpoint.retain);
  } else {
    json["claimName"] = checkpoint.claim_name;
  }
  return json;
}

Json ToJson(const Scheduling& scheduling) {
  Json json = {{"gang", Name(scheduling.gang)}, {"topologyMode", Name(scheduling.topology_mode)}};
  if (!scheduling.queue.empty()) {
    json["queue"] = scheduling.queue;
  }
  if (!scheduling.topology_key.empty()) {
    json["topologyKey"] = scheduling.topology_key;
  }
  return json;
}

}  // namespace

std::string ToString(const Problem& problem) {
  return fmt::format("{}: {}", problem.field, problem.reason);
}

std::string Join(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    text += text.empty() ? "" : "; ";
    text += ToString(problem);
  }
  return text;
}

base::Result<DDPJob, std::vector<Problem>> ParseJob(const Json& object) {
  std::vector<Problem> problems;
  if (!object.is_object()) {
    problems.push_back({"(document)", "must be an object with apiVersion, kind, metadata, spec"});
    return problems;
  }
  const ObjectReader top(object, "", "", problems);
  if (const auto version = json::GetString(object, {"apiVersion"}); version != kApiVersion) {
    problems.push_back({"apiVersion", fmt::format("must be {}, not '{}'", kApiVersion, version)});
  }
  if (const auto kind = json::GetString(object, {"kind"}); kind != kKind) {
    problems.push_back({"kind", fmt::format("must be {}, not '{}'", kKind, kind)});
  }
  DDPJob job;
  job.metadata = ReadMetadata(object, problems);
  job.spec = ReadSpec(object, problems);
  if (!problems.empty()) {
    return problems;
  }
  if (const Json* status = json::Find(object, {"status"}); status != nullptr) {
    job.status = StatusFromJson(*status);
  }
  return job;
}

Json SpecToJson(const Spec& spec) {
  Json json = {
      {"replicas", spec.replicas},
      {"processesPerReplica", spec.processes_per_replica},
      {"template", spec.pod_template.Parsed()},
      {"rendezvous", {{"port", spec.rendezvous_port}}},
      {"restart", ToJson(spec.restart)},
      {"startupTimeoutSeconds", spec.startup_timeout_seconds},
      {"progress",
       {{"port", spec.progress.port},
        {"stallTimeoutSeconds", spec.progress.stall_timeout_seconds},
        {"onStall", Name(spec.progress.on_stall)}}},
      {"suspend", spec.suspend},
      {"cleanPodPolicy", Name(spec.clean_pod_policy)},
      {"scheduling", ToJson(spec.scheduling)},
      {"shm", {{"size", spec.shm_size}}},
  };
  if (spec.checkpoint) {
    json["checkpoint"] = ToJson(*spec.checkpoint);
  }
  if (spec.active_deadline_seconds) {
    json["activeDeadlineSeconds"] = *spec.active_deadline_seconds;
  }
  if (spec.ttl_seconds_after_finished) {
    json["ttlSecondsAfterFinished"] = *spec.ttl_seconds_after_finished;
  }
  if (!spec.managed_by.empty()) {
    json["managedBy"] = spec.managed_by;
  }
  return json;
}

}  // namespace ddp::api
