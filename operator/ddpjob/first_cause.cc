#include "operator/ddpjob/first_cause.h"

#include <algorithm>
#include <tuple>

#include "operator/api/text.h"

namespace ddp::job {
namespace {

auto Order(const PodRecord& pod) {
  const Verdict verdict = JudgePod(pod);
  const bool marked = verdict.cause == api::Cause::kInfrastructure || !pod.disruption.empty();
  const int rank_of_kind = marked ? 0 : IsConsequence(pod) ? 2 : 1;
  return std::tuple(rank_of_kind, pod.finished_time.value_or(TimePoint::max()), pod.rank);
}

}  // namespace

bool IsConsequence(const PodRecord& pod) {
  return (pod.exit_code == static_cast<int>(api::ExitCode::kUnavailable) ||
          pod.exit_code == api::kExitTerminated) &&
         JudgePod(pod).cause == api::Cause::kApplication;
}

size_t FirstCause(const std::vector<PodRecord>& failed) {
  const auto first =
      std::min_element(failed.begin(), failed.end(),
                       [](const PodRecord& a, const PodRecord& b) { return Order(a) < Order(b); });
  return static_cast<size_t>(first - failed.begin());
}

api::Failure FailureOf(const PodRecord& pod, const Verdict& verdict, int processes, TimePoint now) {
  api::Failure failure;
  failure.attempt = pod.attempt;
  failure.rank = pod.rank * processes;
  failure.pod = pod.name;
  failure.pod_uid = pod.uid;
  failure.node = pod.node;
  failure.exit_code = pod.exit_code;
  if (pod.exit_code && *pod.exit_code > 128) {
    failure.signal = *pod.exit_code - 128;
  }
  failure.reason = verdict.reason;
  failure.message = api::Tail(pod.message, api::kMaxFailureMessage);
  failure.cause = verdict.cause;
  failure.time = now;
  return failure;
}

}  // namespace ddp::job
