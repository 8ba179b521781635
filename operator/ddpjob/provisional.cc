#include "operator/ddpjob/provisional.h"

#include <algorithm>

#include "operator/ddpjob/exit_policy.h"

namespace ddp::job {
namespace {

using api::Cause;

bool Exited(const api::Failure& failure, int code) { return failure.exit_code == code; }

bool IsUnwell(const NodeLooks& nodes, const std::string& node) {
  const auto look = nodes.find(node);
  return look != nodes.end() && look->second.unwell;
}

struct Proof {
  Cause cause;
  std::string reason;
};

std::optional<Proof> FindProof(const std::vector<PodRecord>& pods, const NodeLooks& nodes,
                               const api::Failure& failure) {
  for (const PodRecord& pod : pods) {
    const bool same = pod.uid == failure.pod_uid && !pod.uid.empty();
    if (!same && !(BlamesOthers(failure) && pod.attempt == failure.attempt)) {
      continue;
    }
    if (!pod.disruption.empty()) {
      return Proof{CauseOfDisruption(pod.disruption), pod.disruption};
    }
    if (!pod.terminated() && IsUnwell(nodes, pod.node)) {
      return Proof{Cause::kInfrastructure, api::kReasonNodeLost};
    }
  }
  if (IsUnwell(nodes, failure.node)) {
    return Proof{Cause::kInfrastructure, api::kReasonNodeLost};
  }
  return std::nullopt;
}

// From one count to another, and from the budget that it was charged to.
void Rebook(Cause from, Cause to, api::Status& status) {
  --status.restarts.Of(from);
  ++status.restarts.Of(to);
  if ((from == Cause::kApplication || from == Cause::kStall) && status.budget.counted > 0) {
    --status.budget.counted;
    ++status.budget.uncounted;
  }
}

}  // namespace

bool BlamesOthers(const api::Failure& failure) {
  return Exited(failure, static_cast<int>(api::ExitCode::kUnavailable)) ||
         failure.cause == Cause::kStall;
}

bool MayMove(const api::Failure& failure, TimePoint now) {
  const bool silent = Exited(failure, api::kExitKilled) || Exited(failure, api::kExitTerminated) ||
                      BlamesOthers(failure);
  const bool moves = failure.cause == Cause::kApplication || failure.cause == Cause::kStall ||
                     failure.cause == Cause::kStartup;
  return silent && moves && failure.reason != api::kReasonOomKilled &&
         now - failure.time <= api::kProvisionalWindow;
}

bool MoveCauses(const std::vector<PodRecord>& pods, const NodeLooks& nodes, api::Status& status,
                TimePoint now) {
  bool newest_moved = false;
  for (size_t i = 0; i < status.failures.size(); ++i) {
    api::Failure& failure = status.failures[i];
    if (!MayMove(failure, now)) {
      continue;
    }
    const auto proof = FindProof(pods, nodes, failure);
    if (!proof) {
      continue;
    }
    if (i > 0 || !status.give_up_time) {
      Rebook(failure.cause, proof->cause, status);
    }
    failure.cause = proof->cause;
    failure.reason = proof->reason;
    newest_moved = newest_moved || i == 0;
  }
  return newest_moved;
}

}  // namespace ddp::job
