// What plan() decides on: one consistent look at a job and its children. Plain values; either body
// (Kubernetes, local processes) fills them. The pods must be at least as fresh as the status: a pod
// that the status knows of and the list does not yet show would look lost.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/parse.h"
#include "operator/api/types.h"

namespace ddp::job {

using api::TimePoint;

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed };

struct PodRecord {
  std::string name;
  std::string uid;
  int attempt = 0;
  int rank = 0;  // which pod of the attempt: with one process a pod, its rank
  PodPhase phase = PodPhase::kPending;
  bool ready = false;
  bool started = false;     // the worker container runs, or ran
  bool others_run = false;  // it has ended, but not all containers beside it
  std::string node;         // "" until scheduled
  std::string ip;           // "" until it has one
  // The worker container's end. A pod may end without one (evicted): then phase is kFailed.
  std::optional<int> exit_code;
  std::string reason;   // why it ended, or why it does not start (ImagePullBackOff …)
  std::string message;  // termination message, or the scheduler's or kubelet's words
  // Reason of the condition DisruptionTarget=True, or of Kueue's TerminationTarget; "" without.
  std::string disruption;
  std::optional<TimePoint> deletion_time;  // deletionTimestamp: when its grace ends
  std::optional<TimePoint> finished_time;

  bool succeeded() const { return exit_code ? *exit_code == 0 : phase == PodPhase::kSucceeded; }
  bool failed() const { return exit_code ? *exit_code != 0 : phase == PodPhase::kFailed; }
  // Its kubelet has confirmed that all is over: nothing runs, nothing holds a GPU.
  bool terminated() const { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
  // Nothing of it runs. The kubelet tells of the containers first, and a second later of the pod:
  // whoever deletes it in between deletes the log.
  bool ended() const { return terminated() || (exit_code && !others_run); }
};

// A pod as the API server stores it → record; nothing for a pod without our labels. Pure.
std::optional<PodRecord> ReadPod(const json::Json& pod);

enum class ServiceState { kMissing, kOurs, kForeign };

// What became of the last CreatePods, while its outcome still stands in the way. Kept by the body
// in memory only: after its restart the creation is simply tried again.
struct CreateFailure {
  enum class Kind {
    kRefused,    // 422, 400: the template is wrong and can't be changed
    kNameTaken,  // a pod of that name belongs to another owner
    kTransient,  // quota, forbidden, unavailable: worth another try
  };
  Kind kind = Kind::kTransient;
  int attempt = 0;
  std::string message;
};

// What the last pull of rank 0's /progress brought. Kept by the body in memory only, of the current
// attempt only: after its restart the next pull fills it.
struct ProgressPull {
  int attempt = 0;
  bool ok = false;    // an answer that could be read
  std::string error;  // of a pull that failed: why, for people; the same words for the same trouble
  TimePoint time;     // when the pull ended
  api::Progress progress = {};                          // of an answer
  std::optional<api::CheckpointState> checkpoint = {};  // of an answer that tells of one
  bool operator==(const ProgressPull&) const = default;
};

// What an attempt may need beside service and pods.
enum class Extra { kClaim, kNetworkPolicy, kPodGroup };

// What the body knows of one; nothing known means that it is still to be made.
struct ExtraView {
  int attempt = 0;  // for which this was found; a NetworkPolicy serves all
  enum class State { kThere, kForeign, kUnsupported };
  State state = State::kThere;
  std::string message = {};  // of kUnsupported
  bool operator==(const ExtraView&) const = default;
};

// What the API server last said of a node that the plan asked for.
struct NodeLook {
  TimePoint time;                            // when it was asked
  bool unwell = false;                       // gone, or not Ready
  bool lost = false;                         // gone, out of service, or silent
  std::optional<TimePoint> lost_since = {};  // of one that is silent
  bool operator==(const NodeLook&) const = default;
};
// A node as the API server stores it; null for one that is gone. Pure.
NodeLook ReadNode(const json::Json* node, TimePoint now);
using NodeLooks = std::map<std::string, NodeLook>;

// How the operator was started.
struct Settings {
  bool network_policies = false;
  std::optional<std::chrono::seconds> force_delete_after;  // nothing: never by force
};

struct Observed {
  Settings settings;
  api::DDPJob job;
  std::vector<api::Problem> problems;  // of ParseJob or Validate; job may be half-filled then
  std::vector<PodRecord> pods;         // all that the job's UID owns, of any attempt
  std::vector<PodRecord> departed;     // as last seen, of pods that have gone lately
  ServiceState service = ServiceState::kMissing;
  std::map<Extra, ExtraView> extras;
  NodeLooks nodes;  // by name; those of this job that were asked for
  std::optional<CreateFailure> create_failure;
  std::optional<ProgressPull> progress;
  // False on one machine: a killed process is the program's own fault, no node can prove otherwise.
  bool nodes_can_fail = true;
};

}  // namespace ddp::job
