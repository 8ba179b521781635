#include "operator/ddpjob/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "operator/ddpjob/exit_policy.h"
#include "operator/ddpjob/extras.h"
#include "operator/ddpjob/startup_policy.h"
#include "operator/ddpjob/transport_policy.h"

namespace ddp::job {
namespace {

using api::ConditionStatus;
using api::Phase;

struct Saying {
  ConditionStatus status = ConditionStatus::kTrue;
  std::string reason;
  std::string message;
};

std::string LastLine(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  const size_t begin = text.rfind('\n');
  return std::string(begin == std::string_view::npos ? text : text.substr(begin + 1));
}

// Restarting: what the next attempt waits for.
Saying DescribeRestart(const api::Status& status, int processes) {
  const bool failed = !status.failures.empty() && status.failures.front().attempt == status.attempt;
  const std::string cause =
      failed ? Sentence(status.failures.front(), processes) : "the attempt is given up";
  if (status.give_up_time) {
    return {ConditionStatus::kFalse, api::kReasonAwaitingCause,
            fmt::format("{}; no restart is left, waiting until {} for news of its node", cause,
                        base::FormatTime(*status.give_up_time))};
  }
  return {ConditionStatus::kTrue, api::kReasonRestarting,
          fmt::format("{}; the group starts again at {}", cause,
                      base::FormatTime(status.next_attempt_time.value_or(TimePoint())))};
}

// Not (or no more) suspended by its spec: what of the old attempt must end first.
Saying DescribeSuspension(const Observed& observed) {
  const auto left = std::count_if(observed.pods.begin(), observed.pods.end(),
                                  [](const PodRecord& pod) { return !pod.terminated(); });
  if (!observed.job.spec.suspend) {
    return {ConditionStatus::kTrue, api::kReasonResumed,
            fmt::format("goes on when {} pods of the last attempt have ended", left)};
  }
  return {ConditionStatus::kFalse, api::kReasonSuspended,
          left == 0 ? "spec.suspend is true: the job has no pods until it is false again"
                    : fmt::format("spec.suspend is true: {} pods are being stopped", left)};
}

Saying DescribeProgress(const Observed& observed, const Group& group, const api::Status& status) {
  if (status.finished()) {
    return {ConditionStatus::kFalse, api::kReasonFinished, "the job has ended"};
  }
  if (status.phase == Phase::kRestarting) {
    return DescribeRestart(status, observed.job.spec.processes_per_replica);
  }
  if (status.phase == Phase::kSuspended) {
    return DescribeSuspension(observed);
  }
  if (observed.service == ServiceState::kForeign) {
    return {ConditionStatus::kFalse, api::kReasonServiceNameTaken,
            fmt::format("service '{}' exists and belongs to somebody else: delete it, or give the "
                        "job another name",
                        observed.job.metadata.name)};
  }
  if (const auto blocked = LookAtExtras(observed, status).blocked;
      blocked && !status.pods_created_time) {
    return {ConditionStatus::kFalse, blocked->first, blocked->second};
  }
  if (observed.create_failure && observed.create_failure->attempt == status.attempt) {
    return {
        ConditionStatus::kFalse, api::kReasonPodCreateFailed,
        fmt::format("a pod can't be created, trying again: {}", observed.create_failure->message)};
  }
  if (status.phase == Phase::kRunning) {
    return {ConditionStatus::kTrue, api::kReasonRunning, "every rank has started"};
  }
  if (const auto trouble =
          FindStartupTrouble(group.by_replica(), observed.job.spec.processes_per_replica)) {
    return {ConditionStatus::kFalse, trouble->reason, trouble->message};
  }
  return {ConditionStatus::kTrue, api::kReasonStarting, "waiting for every rank to start"};
}

Saying DescribeReadiness(const Group& group, const api::Status& status) {
  if (status.phase == Phase::kRunning && group.AllReady(status.succeeded_ranks)) {
    return {ConditionStatus::kTrue, api::kReasonAllReady, "every rank is ready"};
  }
  if (status.finished()) {
    return {ConditionStatus::kFalse, api::kReasonFinished, "the job has ended"};
  }
  if (status.phase == Phase::kSuspended) {
    return {ConditionStatus::kFalse, api::kReasonSuspended, "the job is suspended"};
  }
  return {ConditionStatus::kFalse, api::kReasonNotAllReady, "not every rank is ready"};
}

// Nothing: it can't be told yet, or not any more, and the condition stays as it is.
std::optional<Saying> DescribeProgressSource(const Observed& observed, const api::Status& status) {
  if (status.phase != Phase::kRunning && status.phase != Phase::kStarting) {
    return std::nullopt;
  }
  if (observed.job.spec.pod_template.host_network()) {
    return Saying{ConditionStatus::kFalse, api::kReasonHostNetwork,
                  "pods on the host's network are not asked for their progress"};
  }
  const auto& pull = observed.progress;
  if (!pull || pull->attempt != status.attempt) {
    return std::nullopt;
  }
  if (pull->ok) {
    return Saying{ConditionStatus::kTrue, api::kReasonPulled, "rank 0 tells of its progress"};
  }
  return Saying{ConditionStatus::kFalse, api::kReasonUnreachable, pull->error};
}

std::optional<Saying> DescribeTransport(const Observed& observed, const Group& group,
                                        const api::Status& status) {
  if (status.attempt == 0 || status.finished() || status.phase == Phase::kRestarting ||
      status.phase == Phase::kSuspended) {
    return std::nullopt;
  }
  if (auto trouble = FindTransportTrouble(observed.job.spec, group.by_replica())) {
    return Saying{ConditionStatus::kTrue, trouble->reason, trouble->message};
  }
  const bool warned = api::FindCondition(status, api::kConditionTransportWarning) != nullptr;
  if (!warned || !status.running_time || !group.Missing({}).empty()) {
    return std::nullopt;
  }
  return Saying{ConditionStatus::kFalse, api::kReasonSpread, "no two pods of the job share a node"};
}

// A reason must be a CamelCase word; a kubelet's may be anything.
std::string CleanReason(const std::string& reason) {
  std::string clean;
  for (const char c : reason) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      clean += c;
    }
  }
  return clean.empty() || std::isalpha(static_cast<unsigned char>(clean.front())) == 0
             ? std::string(api::kReasonError)
             : clean;
}

}  // namespace

Summary Summarize(const Observed& observed, const Group& group, api::Status status, TimePoint now) {
  const int64_t generation = observed.job.metadata.generation;
  const auto set = [&](const char* type, const Saying& saying) {
    api::SetCondition(status, type, saying.status, CleanReason(saying.reason), saying.message,
                      generation, now);
  };
  status.replicas = group.Count(status.succeeded_ranks);
  const Saying progress = DescribeProgress(observed, group, status);
  set(api::kConditionProgressing, progress);
  set(api::kConditionReady, DescribeReadiness(group, status));
  if (status.phase == Phase::kSuspended) {
    set(api::kConditionSuspended,
        {ConditionStatus::kTrue, api::kReasonSuspended, "the job was suspended by spec.suspend"});
  } else if (api::FindCondition(status, api::kConditionSuspended) != nullptr) {
    set(api::kConditionSuspended,
        {ConditionStatus::kFalse, api::kReasonResumed, "the job was resumed"});
  }
  if (const auto source = DescribeProgressSource(observed, status)) {
    set(api::kConditionProgressAvailable, *source);
  }
  if (const auto transport = DescribeTransport(observed, group, status)) {
    set(api::kConditionTransportWarning, *transport);
  }
  if (status.phase == Phase::kSucceeded &&
      api::FindCondition(status, api::kConditionSucceeded) == nullptr) {
    set(api::kConditionSucceeded,
        {ConditionStatus::kTrue, api::kReasonSucceeded, "every rank succeeded"});
  }
  Summary summary;
  if (progress.reason == api::kReasonServiceNameTaken ||
      (!status.finished() && LookAtExtras(observed, status).blocked)) {
    summary.wake_up = api::kBlockedRetry;
  }
  summary.status = std::move(status);
  return summary;
}

std::string Sentence(const api::Failure& failure, int processes) {
  PodRecord end;
  end.exit_code = failure.exit_code;
  end.reason = failure.reason;
  end.phase = PodPhase::kFailed;
  const std::string who =
      processes == 1 ? fmt::format("rank {}", failure.rank)
                     : fmt::format("ranks {}-{}", failure.rank, failure.rank + processes - 1);
  std::string text = fmt::format("{} (pod {}) {}", who, failure.pod, DescribeEnd(end));
  // A program that a signal ended had no say in it: its last line tells of something else.
  if (const std::string line = LastLine(failure.message); !line.empty() && !failure.signal) {
    text += fmt::format(": {}", line);
  }
  return text;
}

Urgency UrgencyOf(const api::Status& before, api::Status after) {
  if (before == after) {
    return Urgency::kNone;
  }
  after.replicas = before.replicas;
  if (before.attempt == after.attempt) {  // facts that whoever plans keeps in mind meanwhile
    after.succeeded_ranks = before.succeeded_ranks;
    after.pods_created_time = before.pods_created_time;
  }
  after.progress = before.progress;
  after.checkpoint = before.checkpoint;
  after.step_time = before.step_time;
  // Words alone: "0/3 nodes are available and 12 more" changes with each pod.
  for (api::Condition& condition : after.conditions) {
    if (const auto* old = api::FindCondition(before, condition.type); old != nullptr) {
      condition.message = old->message;
    }
  }
  return before == after ? Urgency::kCounts : Urgency::kNow;
}

bool AddUnwritten(const api::Status& unwritten, api::Status& status) {
  if (unwritten.attempt != status.attempt) {
    return false;
  }
  status.succeeded_ranks.Add(unwritten.succeeded_ranks);
  if (!status.pods_created_time) {
    status.pods_created_time = unwritten.pods_created_time;
  }
  return true;
}

}  // namespace ddp::job
