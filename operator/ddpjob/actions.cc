#include "operator/ddpjob/actions.h"

#include <map>

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

bool Finished(const api::Status& status) { return status.finished(); }

// The attempt whose terminated pods are kept for their logs; 0 for none.
int KeptAttempt(const api::Status& status) {
  if (status.phase == api::Phase::kSucceeded) {
    return status.attempt;
  }
  return status.failures.empty() ? 0 : status.failures.front().attempt;
}

// One deletion an attempt, oldest first.
std::vector<DeletePods> Deletions(const Observed& observed, const api::Status& status,
                                  TimePoint now) {
  const bool current_stops = Finished(status) || status.phase == api::Phase::kRestarting;
  const int kept = KeptAttempt(status);
  std::map<int, DeletePods> by_attempt;
  for (const PodRecord& pod : observed.pods) {
    if (pod.attempt == status.attempt && !current_stops) {
      continue;
    }
    const bool keep = pod.attempt == kept || pod.attempt == status.attempt;
    // At success the last sidecars get the time that their author gave them.
    const std::optional<int> grace =
        status.phase == api::Phase::kSucceeded && pod.attempt == status.attempt
            ? std::nullopt
            : std::optional(observed.job.spec.restart.grace_period_seconds);
    if ((keep && pod.terminated()) || !NeedsDeletion(pod, grace, now)) {
      continue;
    }
    by_attempt.insert({pod.attempt, {pod.attempt, keep, grace}});
  }
  std::vector<DeletePods> list;
  list.reserve(by_attempt.size());
  for (const auto& [attempt, deletion] : by_attempt) {
    list.push_back(deletion);
  }
  return list;
}

}  // namespace

std::vector<Action> ActionsFor(const Observed& observed, const api::Status& status, TimePoint now) {
  std::vector<Action> actions;
  const bool wants_pods = !Finished(status) && status.phase != api::Phase::kRestarting &&
                          status.attempt > 0 && observed.service != ServiceState::kForeign;
  if (wants_pods && observed.service == ServiceState::kMissing) {
    actions.emplace_back(CreateService{});
  }
  for (const DeletePods& deletion : Deletions(observed, status, now)) {
    actions.emplace_back(deletion);
  }
  // Once all had been there, a missing pod is a failure, never one to be made again.
  if (wants_pods && !status.pods_created_time) {
    const Group group(observed, status.attempt);
    if (auto missing = group.MissingRanks(status.succeeded_ranks); !missing.empty()) {
      actions.emplace_back(CreatePods{status.attempt, std::move(missing)});
    }
  }
  return actions;
}

}  // namespace ddp::job
