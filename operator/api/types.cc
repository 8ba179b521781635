#include "operator/api/types.h"

#include <algorithm>

#include "operator/api/text.h"

namespace ddp::api {

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
