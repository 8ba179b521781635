#include "operator/ddpjob/actions.h"

#include <map>

#include "operator/ddpjob/extras.h"
#include "operator/ddpjob/group.h"

namespace ddp::job {
namespace {

// A pod that somebody else deletes may have a long grace; ours shortens it. The slack is for clocks
// that differ, so that a deletion is not repeated for ever.
constexpr std::chrono::seconds kGraceSlack{10};

bool NeedsDeletion(const PodRecord& pod, std::optional<int> grace_seconds, TimePoint now) {
  if (!pod.deletion_time) {
    return true;
  }
  return grace_seconds &&
         *pod.deletion_time > now + std::chrono::seconds(*grace_seconds) + kGraceSlack;
}

// The attempt whose terminated pods are kept for their logs; 0 for none.
int KeptAttempt(const api::Status& status) {
  if (status.phase == api::Phase::kSucceeded) {
    return status.attempt;
  }
  return status.failures.empty() ? 0 : status.failures.front().attempt;
}

// How pods of one attempt go.
struct Removal {
  bool running = true;
  bool terminated = true;
  bool short_grace = true;  // else the template's
};

// An attempt that failed: its survivors have nothing left to save.
bool HasFailed(const api::Status& status, int attempt) {
  return !status.failures.empty() && status.failures.front().attempt == attempt;
}

Removal RemovalOf(const api::Spec& spec, const api::Status& status, int attempt) {
  const bool current = attempt == status.attempt;
  const bool graceful = current && !HasFailed(status, attempt);
  if (status.phase == api::Phase::kSuspended) {
    return {.short_grace = !graceful};
  }
  if (status.finished() && spec.clean_pod_policy == api::CleanPodPolicy::kAll) {
    return {.short_grace = !graceful};
  }
  const bool stops = status.finished() ? spec.clean_pod_policy != api::CleanPodPolicy::kNone
                                       : status.phase == api::Phase::kRestarting;
  if (current) {
    return {.running = stops, .terminated = false, .short_grace = !graceful};
  }
  return {.terminated = attempt != KeptAttempt(status)};
}

// One deletion an attempt, oldest first.
std::vector<DeletePods> Deletions(const Observed& observed, const api::Status& status,
                                  TimePoint now) {
  const api::Spec& spec = observed.job.spec;
  std::map<int, DeletePods> by_attempt;
  for (const PodRecord& pod : observed.pods) {
    const Removal removal = RemovalOf(spec, status, pod.attempt);
    if (!(pod.ended() ? removal.terminated : removal.running)) {
      continue;
    }
    const std::optional<int> grace =
        removal.short_grace ? std::optional(spec.restart.grace_period_seconds) : std::nullopt;
    if (NeedsDeletion(pod, grace, now)) {
      by_attempt.insert({pod.attempt, {pod.attempt, !removal.terminated, grace}});
    }
  }
  std::vector<DeletePods> list;
  list.reserve(by_attempt.size());
  for (const auto& [attempt, deletion] : by_attempt) {
    list.push_back(deletion);
  }
  return list;
}

bool WantsPods(const Observed& observed, const api::Status& status) {
  const bool active = status.phase == api::Phase::kPending ||
                      status.phase == api::Phase::kStarting || status.phase == api::Phase::kRunning;
  return active && status.attempt > 0 && observed.service != ServiceState::kForeign;
}

}  // namespace

std::vector<Action> ActionsFor(const Observed& observed, const api::Status& status, TimePoint now) {
  std::vector<Action> actions;
  const bool wants_pods = WantsPods(observed, status);
  if (wants_pods && observed.service == ServiceState::kMissing) {
    actions.emplace_back(CreateService{});
  }
  for (const DeletePods& deletion : Deletions(observed, status, now)) {
    actions.emplace_back(deletion);
  }
  // Once all had been there, a missing pod is a failure, never one to be made again.
  if (!wants_pods || status.pods_created_time) {
    return actions;
  }
  const Group group(observed, status.attempt);
  auto missing = group.Missing(status.succeeded_ranks);
  const ExtrasState extras = LookAtExtras(observed, status);
  if (missing.empty() || extras.blocked) {
    return actions;
  }
  for (const Extra extra : extras.missing) {
    actions.emplace_back(CreateExtra{extra, status.attempt});
  }
  actions.emplace_back(CreatePods{status.attempt, std::move(missing)});
  return actions;
}

}  // namespace ddp::job
