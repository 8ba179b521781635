#include "operator/ddpjob/provisional.h"

#include <algorithm>

#include "operator/ddpjob/exit_policy.h"

namespace ddp::job {
namespace {

using api::Cause;

// Only what a dying node can look like: killed, terminated, or out of reach of its peers.
bool MayMove(const api::Failure& failure, TimePoint now) {
  const bool silent = failure.exit_code == api::kExitKilled ||
                      failure.exit_code == api::kExitTerminated ||
                      failure.exit_code == static_cast<int>(api::ExitCode::kUnavailable);
  return silent && failure.reason != api::kReasonOomKilled &&
         (failure.cause == Cause::kApplication || failure.cause == Cause::kStartup) &&
         now - failure.time <= api::kProvisionalWindow;
}

// A rank that lost its peer blames it: any marked pod of the attempt is the proof then.
const PodRecord* Proof(const std::vector<PodRecord>& pods, const api::Failure& failure) {
  const bool blames_peer = failure.exit_code == static_cast<int>(api::ExitCode::kUnavailable);
  for (const PodRecord& pod : pods) {
    const bool same = pod.uid == failure.pod_uid && !pod.uid.empty();
    if (!pod.disruption.empty() && (same || (blames_peer && pod.attempt == failure.attempt))) {
      return &pod;
    }
  }
  return nullptr;
}

}  // namespace

bool MoveCauses(const std::vector<PodRecord>& pods, api::Status& status, TimePoint now) {
  bool newest_moved = false;
  for (size_t i = 0; i < status.failures.size(); ++i) {
    api::Failure& failure = status.failures[i];
    if (!MayMove(failure, now)) {
      continue;
    }
    const PodRecord* proof = Proof(pods, failure);
    if (proof == nullptr) {
      continue;
    }
    const Cause cause = CauseOfDisruption(proof->disruption);
    const bool booked = i > 0 || !status.give_up_time;
    if (booked) {
      --status.restarts.Of(failure.cause);
      ++status.restarts.Of(cause);
      if (failure.cause == Cause::kApplication && status.budget.counted > 0) {
        --status.budget.counted;
        ++status.budget.uncounted;
      }
    }
    failure.cause = cause;
    failure.reason = proof->disruption;
    newest_moved = newest_moved || i == 0;
  }
  return newest_moved;
}

}  // namespace ddp::job
