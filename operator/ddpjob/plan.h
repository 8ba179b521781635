// The brain: observed → what to do. Pure, no I/O, no clock. Thread-safe, as it has no state.
//
// How a body carries a plan out (the order is what makes "each failure counts once" true):
//   1. If plan.status differs from what was observed, write it, on the condition that nobody wrote
//      in between. If that fails: drop the rest, observe again. When only counts, progress or the
//      words of a message changed (plan.urgency == kCounts) the write may wait up to a second; the
//      actions need not wait for it.
//   2. Carry out the actions in order. CreatePods: rank 0 alone and first, the others once it is
//      accepted; a refusal stops the action and becomes Observed::create_failure. A pod that exists
//      already and has our job's UID counts as created. What CreateExtra made, found taken or
//      unsupported becomes Observed::extras; what AskNodes learned, Observed::nodes.
//   3. Send the events.
//   4. Plan again when anything observed changes, at the latest at plan.wake_up.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

struct CreateService {
  bool operator==(const CreateService&) const = default;
};

struct CreateExtra {
  Extra extra = Extra::kClaim;
  int attempt = 0;
  bool operator==(const CreateExtra&) const = default;
};

struct CreatePods {
  int attempt = 0;
  std::vector<int> ranks;  // ascending; replicas, where one has several ranks
  bool operator==(const CreatePods&) const = default;
};

struct DeletePods {
  int attempt = 0;                   // every pod of this attempt …
  bool keep_ended = false;           // … but those that have ended
  std::optional<int> grace_seconds;  // nothing: the pod's own
  bool operator==(const DeletePods&) const = default;
};

// Removes a pod whose node can't confirm its end.
struct ForceDeletePod {
  std::string name;
  std::string uid;
  bool operator==(const ForceDeletePod&) const = default;
};

struct AskNodes {
  std::vector<std::string> nodes;
  bool operator==(const AskNodes&) const = default;
};

// The job itself, with all that it owns.
struct DeleteJob {
  bool operator==(const DeleteJob&) const = default;
};

using Action = std::variant<CreateService, CreateExtra, CreatePods, DeletePods, ForceDeletePod,
                            AskNodes, DeleteJob>;

struct Event {
  bool warning = false;
  std::string reason;
  std::string message;  // at most kMaxEventMessage bytes
  bool operator==(const Event&) const = default;
};

enum class Urgency { kNone, kCounts, kNow };

struct Plan {
  std::vector<Action> actions;
  api::Status status;
  Urgency urgency = Urgency::kNone;  // of writing status
  std::vector<Event> events;
  std::optional<TimePoint> wake_up;
};

Plan MakePlan(const Observed& observed, TimePoint now);

}  // namespace ddp::job
