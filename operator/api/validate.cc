#include "operator/api/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "operator/api/names.h"

namespace ddp::api {
namespace {

using Problems = std::vector<Problem>;

void CheckRange(Problems& out, const std::string& field, int value, int low, int high) {
  if (value < low || value > high) {
    out.push_back({field, fmt::format("must be from {} to {}, not {}", low, high, value)});
  }
}

void CheckName(Problems& out, const DDPJob& job) {
  const std::string& name = job.metadata.name;
  if (!IsDnsLabel(name) && name.size() <= kMaxLabelLength) {
    out.push_back({"metadata.name",
                   fmt::format("'{}' must be lower-case letters, digits and '-', start with a "
                               "letter and not end with '-': it becomes a service name",
                               name)});
  }
  if (!IsDns1123Label(job.metadata.namespace_name)) {
    out.push_back({"metadata.namespace",
                   fmt::format("'{}' is not a name of a namespace", job.metadata.namespace_name)});
  }
  const size_t limit = MaxJobNameLength(job.spec.replicas);
  if (name.size() > limit) {
    out.push_back({"metadata.name",
                   fmt::format("is {} characters long; with {} replicas at most {} fit, because "
                               "pods are named <name>-<attempt>-<rank> within {} characters",
                               name.size(), job.spec.replicas, limit, kMaxLabelLength)});
  }
}

void CheckCheckpoint(Problems& out, const Checkpoint& checkpoint) {
  const std::string& path = checkpoint.path;
  if (!path.starts_with('/') || path == "/" || path.ends_with('/') ||
      path.find("//") != std::string::npos || (path + "/").find("/../") != std::string::npos ||
      path.find(':') != std::string::npos) {
    out.push_back({"spec.checkpoint.path",
                   fmt::format("'{}' must be an absolute folder such as /checkpoints, without "
                               "'..', ':' or a '/' at its end",
                               path)});
  }
  if (checkpoint.claim_name.empty() && !checkpoint.claim_template) {
    out.push_back({"spec.checkpoint.claimName", "must not be empty"});
  }
}

void CheckRule(Problems& out, const RestartRule& rule, const std::string& path) {
  if (rule.exit_codes.empty() == rule.reasons.empty()) {
    out.push_back({path, "must have either exitCodes or reasons, with at least one item"});
  }
  if (std::max(rule.exit_codes.size(), rule.reasons.size()) > kMaxRuleItems) {
    out.push_back({path, fmt::format("must not list more than {} items", kMaxRuleItems)});
  }
  for (size_t i = 0; i < rule.exit_codes.size(); ++i) {
    CheckRange(out, fmt::format("{}.exitCodes[{}]", path, i), rule.exit_codes[i], 1, kMaxExitCode);
  }
  static const std::regex word("[A-Za-z][A-Za-z0-9_]{0,62}");
  for (size_t i = 0; i < rule.reasons.size(); ++i) {
    if (!std::regex_match(rule.reasons[i], word)) {
      out.push_back({fmt::format("{}.reasons[{}]", path, i),
                     fmt::format("'{}' must be a word such as OOMKilled or Evicted, as "
                                 "status.failures has it",
                                 rule.reasons[i])});
    }
  }
}

void CheckRestart(Problems& out, const Restart& restart) {
  CheckRange(out, "spec.restart.maxRestarts", restart.max_restarts, 0, kMaxRestartsLimit);
  CheckRange(out, "spec.restart.maxUncountedRestarts", restart.max_uncounted_restarts, 0,
             kMaxRestartsLimit);
  CheckRange(out, "spec.restart.backoffSeconds", restart.backoff_seconds, 0, kMaxSecondsLimit);
  CheckRange(out, "spec.restart.maxBackoffSeconds", restart.max_backoff_seconds, 0,
             kMaxSecondsLimit);
  CheckRange(out, "spec.restart.gracePeriodSeconds", restart.grace_period_seconds, 0,
             kMaxSecondsLimit);
  if (restart.max_backoff_seconds < restart.backoff_seconds) {
    out.push_back({"spec.restart.maxBackoffSeconds",
                   fmt::format("{} must not be less than backoffSeconds, {}",
                               restart.max_backoff_seconds, restart.backoff_seconds)});
  }
  if (restart.rules.size() > kMaxRules) {
    out.push_back({"spec.restart.rules",
                   fmt::format("has {} rules, at most {}", restart.rules.size(), kMaxRules)});
  }
  for (size_t i = 0; i < restart.rules.size(); ++i) {
    CheckRule(out, restart.rules[i], fmt::format("spec.restart.rules[{}]", i));
  }
}

// The ports of one pod: the rendezvous and one progress port a process.
void CheckPorts(Problems& out, const Spec& spec) {
  CheckRange(out, "spec.rendezvous.port", spec.rendezvous_port, 1, kMaxPort);
  const int first = spec.progress.port;
  CheckRange(out, "spec.progress.port", first, kMinProgressPort, kMaxPort);
  const int last = first + std::clamp(spec.processes_per_replica, 1, kMaxProcessesPerReplica) - 1;
  if (last > kMaxPort && first <= kMaxPort) {
    out.push_back(
        {"spec.progress.port",
         fmt::format("{} leaves no port for each of {} processes: choose one up to {}", first,
                     spec.processes_per_replica, kMaxPort + 1 - spec.processes_per_replica)});
  }
  if (first <= spec.rendezvous_port && spec.rendezvous_port <= last) {
    out.push_back({"spec.progress.port",
                   first == last
                       ? fmt::format("{} is the rendezvous port too: choose another", first)
                       : fmt::format("{} and the ports after it, one a process, include the "
                                     "rendezvous port too, {}: choose another",
                                     first, spec.rendezvous_port)});
  }
}

void CheckTimers(Problems& out, const Spec& spec) {
  CheckRange(out, "spec.startupTimeoutSeconds", spec.startup_timeout_seconds, 0,
             kMaxTimeoutSeconds);
  CheckRange(out, "spec.progress.stallTimeoutSeconds", spec.progress.stall_timeout_seconds, 0,
             kMaxTimeoutSeconds);
  if (spec.active_deadline_seconds) {
    CheckRange(out, "spec.activeDeadlineSeconds", *spec.active_deadline_seconds, 1, INT32_MAX);
  }
  if (spec.ttl_seconds_after_finished) {
    CheckRange(out, "spec.ttlSecondsAfterFinished", *spec.ttl_seconds_after_finished, 0, INT32_MAX);
  }
}

// A label's key: a DNS subdomain and '/', which may be absent, then a name.
bool IsLabelKey(const std::string& key) {
  static const std::regex pattern(
      "([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?");
  return key.size() <= kMaxLabelKey && std::regex_match(key, pattern);
}

void CheckScheduling(Problems& out, const Spec& spec) {
  const Scheduling& scheduling = spec.scheduling;
  if (!scheduling.queue.empty() && !IsDns1123Label(scheduling.queue)) {
    out.push_back({"spec.scheduling.queue",
                   fmt::format("'{}' is not a name of a LocalQueue", scheduling.queue)});
  }
  if (!scheduling.topology_key.empty() && !IsLabelKey(scheduling.topology_key)) {
    out.push_back(
        {"spec.scheduling.topologyKey", fmt::format("'{}' must be a label of nodes, such as "
                                                    "topology.kubernetes.io/zone",
                                                    scheduling.topology_key)});
  }
  static const std::regex controller(
      "[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?");
  if (!spec.managed_by.empty() &&
      (spec.managed_by.size() > kMaxManagedBy || !std::regex_match(spec.managed_by, controller))) {
    out.push_back({"spec.managedBy",
                   fmt::format("'{}' must be a name with a domain, such as {}, of at most {} "
                               "characters",
                               spec.managed_by, kManagedBy, kMaxManagedBy)});
  }
}

void CheckNumbers(Problems& out, const Spec& spec) {
  CheckRange(out, "spec.replicas", spec.replicas, 1, kMaxReplicas);
  CheckRange(out, "spec.processesPerReplica", spec.processes_per_replica, 1,
             kMaxProcessesPerReplica);
  CheckPorts(out, spec);
  CheckRestart(out, spec.restart);
  CheckTimers(out, spec);
  CheckScheduling(out, spec);
  // resource.Quantity, but no sign and no milli-bytes: a size.
  static const std::regex quantity(R"(([0-9]+)(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?)");
  if (!std::regex_match(spec.shm_size, quantity) ||
      spec.shm_size.find_first_of("123456789") == std::string::npos) {
    out.push_back(
        {"spec.shm.size", fmt::format("'{}' must be a size such as 1Gi or 512Mi", spec.shm_size)});
  }
}

const Json& ListAt(const Json& object, std::initializer_list<std::string_view> path) {
  static const Json empty = Json::array();
  const Json* list = json::Find(object, path);
  return list != nullptr && list->is_array() ? *list : empty;
}

// What the operator sets in every pod, and why the user may not.
void CheckOwnedFields(Problems& out, const Json& pod_template) {
  const Json* spec = json::Find(pod_template, {"spec"});
  if (spec == nullptr) {
    return;
  }
  const std::string policy = json::GetString(*spec, {"restartPolicy"}, "Never");
  if (policy != "Never") {
    out.push_back({"spec.template.spec.restartPolicy",
                   fmt::format("must be Never or absent, not {}: the whole group restarts "
                               "together, see spec.restart",
                               policy)});
  }
  for (const char* field : {"hostname", "subdomain", "setHostnameAsFQDN"}) {
    const Json* value = json::Find(*spec, {field});
    const bool is_unset = value == nullptr || value->is_null() || *value == false ||
                          (value->is_string() && value->get_ref<const std::string&>().empty());
    if (!is_unset) {
      out.push_back({fmt::format("spec.template.spec.{}", field),
                     "must be absent: the operator sets it, so that ranks find each other"});
    }
  }
  const Json* labels = json::Find(pod_template, {"metadata", "labels"});
  if (labels != nullptr && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) {
      if (key.starts_with(kLabelPrefix)) {
        out.push_back(
            {fmt::format("spec.template.metadata.labels[{}]", key),
             fmt::format("must be absent: {} labels belong to the operator", kLabelPrefix)});
      }
    }
  }
}

// Duplicate names in a list of objects; `seen` may span several lists.
void CheckUnique(Problems& out, const Json& list, const std::string& path, const char* key,
                 std::set<std::string>& seen) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = json::GetString(list[i], {key});
    if (!name.empty() && !seen.insert(name).second) {
      out.push_back(
          {fmt::format("{}[{}].{}", path, i, key), fmt::format("'{}' is there twice", name)});
    }
  }
}

void CheckReservedEnv(Problems& out, const Json& container, const std::string& path) {
  static const std::set<std::string_view> reserved(std::begin(env::kReserved),
                                                   std::end(env::kReserved));
  const Json& list = ListAt(container, {"env"});
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = json::GetString(list[i], {"name"});
    if (reserved.contains(name)) {
      out.push_back({fmt::format("{}.env[{}].name", path, i),
                     fmt::format("{} is set by the operator for each rank: remove it", name)});
    }
  }
}

void CheckMounts(Problems& out, const DDPJob& job, const Json& worker, const std::string& path) {
  const Json& mounts = ListAt(worker, {"volumeMounts"});
  std::set<std::string> seen;
  CheckUnique(out, mounts, path + ".volumeMounts", "mountPath", seen);
  for (size_t i = 0; i < mounts.size(); ++i) {
    std::string at = json::GetString(mounts[i], {"mountPath"});
    while (at.size() > 1 && at.ends_with('/')) {
      at.pop_back();
    }
    const std::string field = fmt::format("{}.volumeMounts[{}].mountPath", path, i);
    if (at == kShmPath) {
      out.push_back({field, "/dev/shm belongs to the operator: use spec.shm.size"});
    }
    const auto& checkpoint = job.spec.checkpoint;
    if (checkpoint && (at == checkpoint->path || at.starts_with(checkpoint->path + "/"))) {
      out.push_back({field, fmt::format("'{}' would cover spec.checkpoint.path, where the claim is "
                                        "mounted: choose another place for one of them",
                                        at)});
    }
  }
}

void CheckVolumes(Problems& out, const Json& pod_template) {
  const std::string path = "spec.template.spec.volumes";
  const Json& volumes = ListAt(pod_template, {"spec", "volumes"});
  std::set<std::string> seen;
  CheckUnique(out, volumes, path, "name", seen);
  for (size_t i = 0; i < volumes.size(); ++i) {
    const std::string name = json::GetString(volumes[i], {"name"});
    if (!IsDns1123Label(name)) {
      out.push_back({fmt::format("{}[{}].name", path, i),
                     fmt::format("'{}' must be lower-case letters, digits and '-'", name)});
    }
    if (name == kShmVolume || name == kCheckpointVolume) {
      out.push_back({fmt::format("{}[{}].name", path, i),
                     fmt::format("'{}' is a volume of the operator's: choose another name", name)});
    }
  }
}

// With the host's name and its shared memory NCCL takes pods for processes of one host, tries to
// open their GPUs and fails: each pod sees its own alone.
void CheckHostNamespaces(Problems& out, const Spec& spec, const Json& pod_template) {
  if (spec.replicas > 1 && spec.processes_per_replica == 1 && spec.pod_template.host_network() &&
      json::GetBool(pod_template, {"spec", "hostIPC"})) {
    out.push_back({"spec.template.spec.hostIPC",
                   "must not be true together with hostNetwork, NCCL would take one-GPU pods for "
                   "processes of one host and crash: set processesPerReplica to the GPUs of a "
                   "node, or leave one of the two out"});
  }
}

void CheckTemplate(Problems& out, const DDPJob& job) {
  const Json pod_template = job.spec.pod_template.Parsed();
  CheckOwnedFields(out, pod_template);
  CheckHostNamespaces(out, job.spec, pod_template);
  const Json* worker = FindWorker(pod_template);
  if (worker == nullptr) {
    out.push_back({"spec.template.spec.containers", "must list at least one container"});
    return;
  }
  std::set<std::string> names;
  for (const char* list_name : {"initContainers", "containers"}) {
    const std::string path = fmt::format("spec.template.spec.{}", list_name);
    const Json& containers = ListAt(pod_template, {"spec", list_name});
    CheckUnique(out, containers, path, "name", names);
    for (size_t i = 0; i < containers.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", path, i);
      if (!containers[i].is_object()) {
        out.push_back({at, "must be an object"});
        continue;
      }
      if (json::GetString(containers[i], {"name"}).empty()) {
        out.push_back({at + ".name", "is missing: name the container"});
      }
      if (&containers[i] == worker) {
        CheckReservedEnv(out, containers[i], at);
        CheckMounts(out, job, containers[i], at);
      }
    }
  }
  CheckVolumes(out, pod_template);
}

}  // namespace

const Json* FindWorker(const Json& pod_template) {
  const Json* first = nullptr;
  for (const Json& container : ListAt(pod_template, {"spec", "containers"})) {
    if (json::GetString(container, {"name"}) == kWorkerContainer) {
      return &container;
    }
    first = first == nullptr ? &container : first;
  }
  return first;
}

std::vector<Problem> Validate(const DDPJob& job) {
  Problems out;
  CheckName(out, job);
  CheckNumbers(out, job.spec);
  if (job.spec.checkpoint) {
    CheckCheckpoint(out, *job.spec.checkpoint);
  }
  CheckTemplate(out, job);
  return out;
}

}  // namespace ddp::api
