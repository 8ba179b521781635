#include "operator/ddpjob/conditions.h"

#include <fmt/format.h>

#include <cctype>

#include "operator/ddpjob/exit_policy.h"
#include "operator/ddpjob/startup_policy.h"

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
Saying DescribeRestart(const api::Status& status) {
  const std::string cause =
      status.failures.empty() ? "the attempt can't be used" : Sentence(status.failures.front());
  if (status.give_up_time) {
    return {ConditionStatus::kFalse, api::kReasonAwaitingCause,
            fmt::format("{}; no restart is left, waiting until {} for news of its node", cause,
                        base::FormatTime(*status.give_up_time))};
  }
  return {ConditionStatus::kTrue, api::kReasonRestarting,
          fmt::format("{}; the group starts again at {}", cause,
                      base::FormatTime(status.next_attempt_time.value_or(TimePoint())))};
}

Saying DescribeProgress(const Observed& observed, const Group& group, const api::Status& status) {
  if (status.finished()) {
    return {ConditionStatus::kFalse, api::kReasonFinished, "the job has ended"};
  }
  if (status.phase == Phase::kRestarting) {
    return DescribeRestart(status);
  }
  if (observed.service == ServiceState::kForeign) {
    return {ConditionStatus::kFalse, api::kReasonServiceNameTaken,
            fmt::format("service '{}' exists and belongs to somebody else: delete it, or give the "
                        "job another name",
                        observed.job.metadata.name)};
  }
  if (observed.create_failure && observed.create_failure->attempt == status.attempt) {
    return {
        ConditionStatus::kFalse, api::kReasonPodCreateFailed,
        fmt::format("a pod can't be created, trying again: {}", observed.create_failure->message)};
  }
  if (status.phase == Phase::kRunning) {
    return {ConditionStatus::kTrue, api::kReasonRunning, "every rank has started"};
  }
  if (const auto trouble = FindStartupTrouble(group.by_rank())) {
    return {ConditionStatus::kFalse, trouble->reason, trouble->message};
  }
  return {ConditionStatus::kTrue, api::kReasonStarting, "waiting for every rank to start"};
}

Saying DescribeReadiness(const Group& group, const api::Status& status) {
  if (status.phase == Phase::kRunning && group.AllReady(status.succeeded_ranks)) {
    return {ConditionStatus::kTrue, api::kReasonAllReady, "every rank is ready"};
  }
  return {ConditionStatus::kFalse,
          status.finished() ? api::kReasonFinished : api::kReasonNotAllReady,
          status.finished() ? "the job has ended" : "not every rank is ready"};
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
  if (status.phase == Phase::kSucceeded &&
      api::FindCondition(status, api::kConditionSucceeded) == nullptr) {
    set(api::kConditionSucceeded,
        {ConditionStatus::kTrue, api::kReasonSucceeded, "every rank succeeded"});
  }
  Summary summary;
  if (progress.reason == api::kReasonServiceNameTaken) {
    summary.wake_up = api::kBlockedRetry;
  }
  summary.status = std::move(status);
  return summary;
}

std::string Sentence(const api::Failure& failure) {
  PodRecord end;
  end.exit_code = failure.exit_code;
  end.reason = failure.reason;
  end.phase = PodPhase::kFailed;
  std::string text =
      fmt::format("rank {} (pod {}) {}", failure.rank, failure.pod, DescribeEnd(end));
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
  return before == after ? Urgency::kCounts : Urgency::kNow;
}

}  // namespace ddp::job
