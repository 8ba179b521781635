// DDPJob as plain values: what the user wants (Spec) and what the operator knows (Status).
// Copy freely, compare with ==. Times in status have whole seconds, as Kubernetes keeps them, so
// that a status which was written and read again compares equal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/constants.h"
#include "operator/api/pod_template.h"
#include "operator/api/rank_set.h"
#include "operator/base/clock.h"
#include "operator/json/compact.h"

namespace ddp::api {

using base::TimePoint;
using json::Json;

// ---- what the user wants ------------------------------------------------------------------------

enum class CheckpointMount { kRank0, kAll };
const char* Name(CheckpointMount mount);
enum class Retain { kKeep, kDelete };
const char* Name(Retain retain);

// Either a claim that exists, or a template for one that the operator makes.
struct Checkpoint {
  std::string path;
  std::string claim_name;
  // {metadata: {labels, annotations}, spec}
  std::optional<json::Compact> claim_template = std::nullopt;
  Retain retain = Retain::kKeep;
  CheckpointMount mount = CheckpointMount::kRank0;  // resolved when parsed
  bool operator==(const Checkpoint&) const = default;
};

enum class FailureAction { kFail, kRestart, kRestartUncounted };
const char* Name(FailureAction action);

// Exactly one of the lists is given; the first rule that matches decides.
struct RestartRule {
  std::vector<int> exit_codes = {};
  std::vector<std::string> reasons = {};
  FailureAction action = FailureAction::kRestart;
  bool operator==(const RestartRule&) const = default;
};

struct Restart {
  int max_restarts = kDefaultMaxRestarts;
  int max_uncounted_restarts = kDefaultMaxUncountedRestarts;
  int backoff_seconds = kDefaultBackoffSeconds;
  int max_backoff_seconds = kDefaultMaxBackoffSeconds;
  int grace_period_seconds = kDefaultGraceSeconds;  // resolved against the template when parsed
  std::vector<RestartRule> rules;
  bool operator==(const Restart&) const = default;
};

enum class OnStall { kRestart, kFail, kReport };
const char* Name(OnStall action);

struct ProgressSpec {
  int port = kDefaultProgressPort;
  int stall_timeout_seconds = 0;  // 0: never
  OnStall on_stall = OnStall::kRestart;
  bool operator==(const ProgressSpec&) const = default;
};

enum class CleanPodPolicy { kNone, kRunning, kAll };
const char* Name(CleanPodPolicy policy);
enum class Gang { kNone, kKubernetes };
const char* Name(Gang gang);
enum class TopologyMode { kPreferred, kRequired };
const char* Name(TopologyMode mode);

struct Scheduling {
  Gang gang = Gang::kNone;
  std::string queue;         // Kueue's; "": none
  std::string topology_key;  // "": none
  TopologyMode topology_mode = TopologyMode::kPreferred;
  bool operator==(const Scheduling&) const = default;
};

struct Spec {
  int replicas = 0;               // pods
  int processes_per_replica = 1;  // ranks of each
  PodTemplate pod_template;
  int rendezvous_port = kDefaultRendezvousPort;
  std::optional<Checkpoint> checkpoint;
  Restart restart;
  int startup_timeout_seconds = kDefaultStartupTimeoutSeconds;  // 0: never
  ProgressSpec progress;
  bool suspend = false;
  std::optional<int> active_deadline_seconds;
  std::optional<int> ttl_seconds_after_finished;
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::kRunning;
  std::string managed_by;  // "" or kManagedBy: this operator
  Scheduling scheduling;
  std::string shm_size = kDefaultShmSize;
  int ranks() const { return replicas * processes_per_replica; }
  bool operator==(const Spec&) const = default;
};

struct Metadata {
  std::string namespace_name = "default";
  std::string name;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  std::optional<TimePoint> creation_time;
  std::optional<TimePoint> deletion_time;
  std::optional<TimePoint> restart_requested;  // the annotation kRestartAnnotation
};

// ---- what the operator knows --------------------------------------------------------------------

// In the order in which an attempt goes through them.
enum class Phase { kPending, kStarting, kRunning, kRestarting, kSuspended, kSucceeded, kFailed };
const char* Name(Phase phase);

// What a failure is booked under; the fields of status.restarts.
enum class Cause { kApplication, kStall, kInfrastructure, kPreemption, kStartup };
const char* Name(Cause cause);

enum class ConditionStatus { kTrue, kFalse, kUnknown };
const char* Name(ConditionStatus status);

struct Condition {
  std::string type;
  ConditionStatus status = ConditionStatus::kUnknown;
  int64_t observed_generation = 0;
  TimePoint last_transition_time;
  std::string reason;
  std::string message;
  bool operator==(const Condition&) const = default;
};

// Restarts so far, by cause; they never go down, but for a count that moves to its true cause.
struct RestartCounts {
  int application = 0;
  int stall = 0;
  int infrastructure = 0;
  int preemption = 0;
  int startup = 0;
  int Total() const { return application + stall + infrastructure + preemption + startup; }
  int& Of(Cause cause);
  bool operator==(const RestartCounts&) const = default;
};

// Failures since the last progress; what the budgets and the backoff look at.
struct Budget {
  int counted = 0;
  int uncounted = 0;
  int64_t checkpoint_step = -1;  // the newest checkpoint when it was last charged; -1: none
  bool operator==(const Budget&) const = default;
};

struct ReplicaCounts {
  int desired = 0;
  int ready = 0;
  int active = 0;  // pods of the attempt that exist and have not ended
  int succeeded = 0;
  int failed = 0;
  bool operator==(const ReplicaCounts&) const = default;
};

// How far the training is, in rank 0's words.
struct Progress {
  int64_t step = 0;
  std::optional<int64_t> total_steps;
  std::optional<int64_t> epoch;
  std::optional<double> percent;
  std::optional<double> loss;
  std::optional<double> samples_per_second;
  std::optional<int64_t> eta_seconds;
  std::optional<int> slowest_rank;
  std::optional<TimePoint> last_step_time;  // by rank 0's clock
  bool operator==(const Progress&) const = default;
};

// The newest complete checkpoint.
struct CheckpointState {
  int64_t step = 0;
  std::optional<TimePoint> time;
  bool operator==(const CheckpointState&) const = default;
};

struct Failure {
  int attempt = 0;
  int rank = 0;
  std::string pod;
  std::string pod_uid;
  std::string node;
  std::optional<int> exit_code;
  std::optional<int> signal;  // for an exit code above 128
  std::string reason;
  std::string message;  // the last 1 KiB of its log
  Cause cause = Cause::kApplication;
  TimePoint time;
  bool operator==(const Failure&) const = default;
};

struct Status {
  Phase phase = Phase::kPending;
  std::vector<Condition> conditions;  // sorted by type
  int64_t observed_generation = 0;
  int attempt = 0;  // 0: none yet
  RestartCounts restarts;
  Budget budget;
  ReplicaCounts replicas;
  RankSet succeeded_ranks;  // of this attempt; a rank that is done stays done
  std::optional<Progress> progress;
  std::optional<CheckpointState> checkpoint;
  std::vector<Failure> failures;        // newest first
  std::optional<TimePoint> start_time;  // anew when resumed: the deadline counts from here
  std::optional<TimePoint> completion_time;
  std::optional<TimePoint> restart_request_time;  // the last request that was honoured
  // Timers: all derive from these, so they survive the operator.
  std::optional<TimePoint> pods_created_time;  // this attempt's pods were all there: one missing
                                               // now is lost, not yet to be made
  std::optional<TimePoint> bound_time;         // this attempt's first pod had a node
  std::optional<TimePoint> running_time;       // this attempt's ranks had all started
  std::optional<TimePoint> step_time;          // a pull of this attempt brought a new step, by the
                                               // operator's clock
  std::optional<TimePoint> next_attempt_time;  // Restarting: not before
  std::optional<TimePoint> give_up_time;       // Restarting: budget spent, then Failed
  bool operator==(const Status&) const = default;

  bool finished() const { return phase == Phase::kSucceeded || phase == Phase::kFailed; }
};

const Condition* FindCondition(const Status& status, std::string_view type);
// Adds or changes; last_transition_time moves only when `value` changes. Long messages are cut.
void SetCondition(Status& status, std::string_view type, ConditionStatus value,
                  std::string_view reason, std::string_view message, int64_t generation,
                  TimePoint now);

struct DDPJob {
  Metadata metadata;
  Spec spec;
  Status status;
};

}  // namespace ddp::api
