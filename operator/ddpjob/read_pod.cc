// Pods and nodes as the API server stores them → what plan() looks at.
#include <charconv>

#include "operator/api/text.h"
#include "operator/api/validate.h"
#include "operator/ddpjob/observed.h"

namespace ddp::job {
namespace {

using json::Json;

std::optional<int> LabelNumber(const Json& pod, const char* label) {
  const std::string text = json::GetString(pod, {"metadata", "labels", label});
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

std::optional<TimePoint> TimeAt(const Json& object, std::initializer_list<std::string_view> path) {
  const auto time = base::ParseTime(json::GetString(object, path));
  return time ? std::optional(*time) : std::nullopt;
}

const Json& ListAt(const Json& object, std::initializer_list<std::string_view> path) {
  static const Json none = Json::array();
  const Json* list = json::Find(object, path);
  return list != nullptr && list->is_array() ? *list : none;
}

PodPhase ReadPhase(const Json& pod) {
  const std::string phase = json::GetString(pod, {"status", "phase"});
  if (phase == "Running") {
    return PodPhase::kRunning;
  }
  if (phase == "Succeeded") {
    return PodPhase::kSucceeded;
  }
  if (phase == "Failed") {
    return PodPhase::kFailed;
  }
  return PodPhase::kPending;
}

void ReadConditions(const Json& pod, PodRecord& record) {
  for (const Json& condition : ListAt(pod, {"status", "conditions"})) {
    const std::string type = json::GetString(condition, {"type"});
    const bool is_true = json::GetString(condition, {"status"}) == "True";
    if (type == "Ready") {
      record.ready = is_true;
    } else if ((type == "DisruptionTarget" || type == "TerminationTarget") && is_true) {
      record.disruption = json::GetString(condition, {"reason"}, "DisruptionTarget");
    } else if (type == "PodScheduled" && !is_true) {
      record.reason = json::GetString(condition, {"reason"});
      record.message = json::GetString(condition, {"message"});
    }
  }
}

// The status of a container by name in a list such as status.containerStatuses; null without.
const Json* ContainerStatus(const Json& pod, const char* list_name, std::string_view name) {
  for (const Json& status : ListAt(pod, {"status", list_name})) {
    if (json::GetString(status, {"name"}) == name) {
      return &status;
    }
  }
  return nullptr;
}

// Why a container does not start, if the kubelet says so. ContainerCreating and PodInitializing are
// the normal course of things.
void ReadWaiting(const Json& status, PodRecord& record) {
  const Json* waiting = json::Find(status, {"state", "waiting"});
  if (waiting == nullptr) {
    return;
  }
  const std::string reason = json::GetString(*waiting, {"reason"});
  if (!reason.empty() && reason != "ContainerCreating" && reason != "PodInitializing") {
    record.reason = reason;
    record.message = json::GetString(*waiting, {"message"});
  }
}

void ReadInitContainers(const Json& pod, PodRecord& record) {
  for (const Json& status : ListAt(pod, {"status", "initContainerStatuses"})) {
    ReadWaiting(status, record);
    const Json* ended = json::Find(status, {"state", "terminated"});
    if (ended != nullptr && json::GetInt(*ended, {"exitCode"}) != 0) {
      record.reason = json::GetString(*ended, {"reason"}, api::kReasonError);
      record.message = json::GetString(*ended, {"message"});
    }
  }
}

// Whether a container has not ended, or not even begun, where the worker's has ended.
bool OthersRun(const Json& pod) {
  size_t over = 0;
  for (const Json& status : ListAt(pod, {"status", "containerStatuses"})) {
    over += json::Find(status, {"state", "terminated"}) != nullptr ? 1 : 0;
  }
  return over < ListAt(pod, {"spec", "containers"}).size();
}

void ReadWorker(const Json& pod, PodRecord& record) {
  const Json* worker = api::FindWorker(pod);
  const std::string name = worker != nullptr ? json::GetString(*worker, {"name"}) : "";
  const Json* status = ContainerStatus(pod, "containerStatuses", name);
  if (status == nullptr) {
    return;
  }
  ReadWaiting(*status, record);
  record.started = json::Find(*status, {"state", "running"}) != nullptr;
  const Json* ended = json::Find(*status, {"state", "terminated"});
  if (ended == nullptr) {
    return;
  }
  // A container that never ran (its sandbox was lost) has no start time.
  record.started = !json::GetString(*ended, {"startedAt"}).empty();
  record.exit_code = static_cast<int>(json::GetInt(*ended, {"exitCode"}));
  record.others_run = OthersRun(pod);
  record.reason = json::GetString(*ended, {"reason"});
  record.message = api::Tail(json::GetString(*ended, {"message"}), api::kMaxFailureMessage);
  record.finished_time = TimeAt(*ended, {"finishedAt"});
}

}  // namespace

std::optional<PodRecord> ReadPod(const Json& pod) {
  const auto attempt = LabelNumber(pod, api::kAttemptLabel);
  const auto replica = LabelNumber(pod, api::kReplicaLabel);
  if (!attempt || !replica) {
    return std::nullopt;
  }
  PodRecord record;
  record.name = json::GetString(pod, {"metadata", "name"});
  record.uid = json::GetString(pod, {"metadata", "uid"});
  record.attempt = *attempt;
  record.rank = *replica;
  record.phase = ReadPhase(pod);
  record.node = json::GetString(pod, {"spec", "nodeName"});
  if (!json::GetBool(pod, {"spec", "hostNetwork"})) {  // a node's address is not the pod's own
    record.ip = json::GetString(pod, {"status", "podIP"});
  }
  record.deletion_time = TimeAt(pod, {"metadata", "deletionTimestamp"});
  ReadConditions(pod, record);
  ReadInitContainers(pod, record);
  ReadWorker(pod, record);
  // An eviction's reason stands on the pod; it says more than "Error" on the container.
  if (const std::string reason = json::GetString(pod, {"status", "reason"}); !reason.empty()) {
    record.reason = reason;
    record.message =
        api::Tail(json::GetString(pod, {"status", "message"}), api::kMaxFailureMessage);
  }
  return record;
}

NodeLook ReadNode(const Json* node, TimePoint now) {
  NodeLook look;
  look.time = now;
  look.unwell = node == nullptr;
  look.lost = node == nullptr;
  if (node == nullptr) {
    return look;
  }
  for (const Json& taint : ListAt(*node, {"spec", "taints"})) {
    look.lost = look.lost || json::GetString(taint, {"key"}) == "node.kubernetes.io/out-of-service";
  }
  for (const Json& condition : ListAt(*node, {"status", "conditions"})) {
    const std::string status = json::GetString(condition, {"status"});
    if (json::GetString(condition, {"type"}) != "Ready" || status == "True") {
      continue;
    }
    look.unwell = true;
    if (status == "Unknown" && !look.lost) {  // its kubelet is silent
      look.lost = true;
      look.lost_since = TimeAt(condition, {"lastTransitionTime"}).value_or(now);
    }
  }
  look.unwell = look.unwell || look.lost;
  return look;
}

}  // namespace ddp::job
