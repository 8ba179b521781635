#include "operator/api/types.h"

#include <algorithm>

#include "operator/api/text.h"

namespace ddp::api {

const char* Name(CheckpointMount mount) { return mount == CheckpointMount::kAll ? "All" : "Rank0"; }

const char* Name(Retain retain) { return retain == Retain::kDelete ? "Delete" : "Keep"; }

const char* Name(FailureAction action) {
  switch (action) {
    case FailureAction::kFail:
      return "Fail";
    case FailureAction::kRestart:
      return "Restart";
    case FailureAction::kRestartUncounted:
      return "RestartUncounted";
  }
  return "Restart";
}

const char* Name(OnStall action) {
  switch (action) {
    case OnStall::kRestart:
      return "Restart";
    case OnStall::kFail:
      return "Fail";
    case OnStall::kReport:
      return "Report";
  }
  return "Restart";
}

const char* Name(CleanPodPolicy policy) {
  switch (policy) {
    case CleanPodPolicy::kNone:
      return "None";
    case CleanPodPolicy::kRunning:
      return "Running";
    case CleanPodPolicy::kAll:
      return "All";
  }
  return "Running";
}

const char* Name(Gang gang) { return gang == Gang::kKubernetes ? "Kubernetes" : "None"; }

const char* Name(TopologyMode mode) {
  return mode == TopologyMode::kRequired ? "Required" : "Preferred";
}

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kPending:
      return "Pending";
    case Phase::kStarting:
      return "Starting";
    case Phase::kRunning:
      return "Running";
    case Phase::kRestarting:
      return "Restarting";
    case Phase::kSuspended:
      return "Suspended";
    case Phase::kSucceeded:
      return "Succeeded";
    case Phase::kFailed:
      return "Failed";
  }
  return "Pending";
}

const char* Name(Cause cause) {
  switch (cause) {
    case Cause::kApplication:
      return "application";
    case Cause::kStall:
      return "stall";
    case Cause::kInfrastructure:
      return "infrastructure";
    case Cause::kPreemption:
      return "preemption";
    case Cause::kStartup:
      return "startup";
  }
  return "application";
}

const char* Name(ConditionStatus status) {
  switch (status) {
    case ConditionStatus::kTrue:
      return "True";
    case ConditionStatus::kFalse:
      return "False";
    case ConditionStatus::kUnknown:
      return "Unknown";
  }
  return "Unknown";
}

int& RestartCounts::Of(Cause cause) {
  switch (cause) {
    case Cause::kApplication:
      return application;
    case Cause::kStall:
      return stall;
    case Cause::kInfrastructure:
      return infrastructure;
    case Cause::kPreemption:
      return preemption;
    case Cause::kStartup:
      return startup;
  }
  return application;
}

const Condition* FindCondition(const Status& status, std::string_view type) {
  for (const Condition& condition : status.conditions) {
    if (condition.type == type) {
      return &condition;
    }
  }
  return nullptr;
}

void SetCondition(Status& status, std::string_view type, ConditionStatus value,
                  std::string_view reason, std::string_view message, int64_t generation,
                  TimePoint now) {
  auto at = std::find_if(status.conditions.begin(), status.conditions.end(),
                         [type](const Condition& c) { return c.type >= type; });
  if (at == status.conditions.end() || at->type != type) {
    at = status.conditions.insert(at, Condition{});
    at->type = type;
    at->last_transition_time = now;
  } else if (at->status != value) {
    at->last_transition_time = now;
  }
  at->status = value;
  at->observed_generation = generation;
  at->reason = reason;
  at->message = Cut(message, kMaxConditionMessage);
}

}  // namespace ddp::api
