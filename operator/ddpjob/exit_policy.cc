#include "operator/ddpjob/exit_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

namespace ddp::job {
namespace {

using api::Cause;
using api::ExitCode;

bool Is(const PodRecord& pod, ExitCode code) { return pod.exit_code == static_cast<int>(code); }

bool IsUserError(const PodRecord& pod) {
  return Is(pod, ExitCode::kUsage) || Is(pod, ExitCode::kData) || Is(pod, ExitCode::kNoInput) ||
         Is(pod, ExitCode::kConfig);
}

// Reasons that the kubelet or the node controller put on a pod which they ended or refused
// themselves (kubelet eviction, node shutdown, admission; container_status "unknown").
bool IsNodeReason(std::string_view reason) {
  constexpr std::array kReasons = {"Evicted",      "NodeLost",   "NodeShutdown",
                                   "Terminated",   "Shutdown",   "UnexpectedAdmissionError",
                                   "NodeAffinity", "Preempting", "ContainerStatusUnknown"};
  return reason.starts_with("OutOf") ||
         std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end();
}

Verdict Uncounted(Cause cause, std::string_view reason) {
  return {FailureAction::kRestartUncounted, cause, std::string(reason), false};
}

// A node, an eviction or a deletion ended it: the exit code is not the program's own word.
bool IsDisturbed(const PodRecord& pod) {
  return !pod.disruption.empty() || IsNodeReason(pod.reason) || pod.deletion_time ||
         pod.reason == api::kReasonPodDeleted;
}

bool Matches(const api::RestartRule& rule, const PodRecord& pod, const Verdict& verdict) {
  const bool code = pod.exit_code && !IsDisturbed(pod) &&
                    std::find(rule.exit_codes.begin(), rule.exit_codes.end(), *pod.exit_code) !=
                        rule.exit_codes.end();
  return code ||
         std::find(rule.reasons.begin(), rule.reasons.end(), verdict.reason) != rule.reasons.end();
}

Verdict Counted(std::string_view reason, bool provisional) {
  return {FailureAction::kRestart, Cause::kApplication, std::string(reason), provisional};
}

}  // namespace

Cause CauseOfDisruption(std::string_view reason) {
  // PreemptionByScheduler, a kubelet's Preempting, Kueue's WorkloadEvictedDueToPreempted.
  return reason.find("Preempt") != std::string_view::npos ? Cause::kPreemption
                                                          : Cause::kInfrastructure;
}

Verdict JudgePod(const PodRecord& pod) {
  if (IsUserError(pod)) {
    return {.action = FailureAction::kFail,
            .cause = Cause::kApplication,
            .reason = api::kReasonUserError,
            .note =
                "its exit code says that a restart would not help: correct what it reports, "
                "then create the job again"};
  }
  if (!pod.disruption.empty()) {
    return Uncounted(CauseOfDisruption(pod.disruption), pod.disruption);
  }
  if (Is(pod, ExitCode::kTempFail)) {
    return Uncounted(Cause::kPreemption, api::kReasonStopped);
  }
  if (IsNodeReason(pod.reason)) {
    return Uncounted(CauseOfDisruption(pod.reason), pod.reason);
  }
  if (pod.deletion_time || pod.reason == api::kReasonPodDeleted) {
    return Uncounted(Cause::kInfrastructure, api::kReasonPodDeleted);
  }
  if (pod.reason == api::kReasonOomKilled) {
    return Counted(api::kReasonOomKilled, false);
  }
  if (Is(pod, ExitCode::kUnavailable)) {
    return Counted(api::kReasonPeerLost, true);
  }
  const bool killed = pod.exit_code == api::kExitKilled || pod.exit_code == api::kExitTerminated;
  return Counted(pod.reason.empty() ? api::kReasonError : pod.reason, killed);
}

Verdict JudgeStall(api::OnStall on_stall) {
  if (on_stall == api::OnStall::kFail) {
    return {.action = FailureAction::kFail,
            .cause = Cause::kStall,
            .reason = api::kReasonStalled,
            .note = "spec.progress.onStall is Fail"};
  }
  return {.action = FailureAction::kRestart,
          .cause = Cause::kStall,
          .reason = api::kReasonStalled,
          .provisional = true};
}

Verdict ApplyRules(const std::vector<api::RestartRule>& rules, const PodRecord& pod,
                   Verdict verdict) {
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const api::RestartRule& r) {
    return Matches(r, pod, verdict);
  });
  if (rule == rules.end()) {
    return verdict;
  }
  verdict.action = rule->action;
  const bool counts = verdict.cause == Cause::kApplication || verdict.cause == Cause::kStall;
  if (rule->action == FailureAction::kFail) {
    verdict.fail_reason = api::kReasonRule;
    verdict.note = fmt::format("spec.restart.rules[{}] says Fail", rule - rules.begin());
  } else if (rule->action == FailureAction::kRestart && !counts) {
    verdict.cause = Cause::kApplication;
  } else if (rule->action == FailureAction::kRestartUncounted && counts) {
    verdict.cause = Cause::kInfrastructure;
  }
  return verdict;
}

Verdict JudgeAttempt(const PodRecord& first, bool all_unavailable, bool ran,
                     const std::vector<api::RestartRule>& rules) {
  Verdict verdict = JudgePod(first);
  if (all_unavailable) {
    verdict.reason = api::kReasonRendezvousFailed;
    verdict.provisional = false;
  }
  verdict = ApplyRules(rules, first, std::move(verdict));
  if (!ran && verdict.action == FailureAction::kRestart) {
    verdict.action = FailureAction::kRestartUncounted;
    verdict.cause = Cause::kStartup;
  }
  return verdict;
}

std::string DescribeEnd(const PodRecord& pod) {
  if (!pod.exit_code) {
    if (pod.reason == api::kReasonPodDeleted || (pod.deletion_time && !pod.failed())) {
      return "was deleted";
    }
    if (pod.reason == api::kReasonStartupTimeout) {
      return "did not start in time";
    }
    if (pod.reason == api::kReasonStalled) {
      return "stands still";
    }
    return fmt::format("failed: {}", pod.reason.empty() ? api::kReasonError : pod.reason);
  }
  std::string text = fmt::format("exited with code {}", *pod.exit_code);
  if (const char* name = *pod.exit_code > 128 ? sigabbrev_np(*pod.exit_code - 128) : nullptr;
      name != nullptr) {
    text += fmt::format(" (SIG{})", name);
  }
  const bool tells_more =
      !pod.reason.empty() && pod.reason != api::kReasonError && pod.reason != api::kReasonUserError;
  if (tells_more) {
    text += fmt::format(", {}", pod.reason);
  }
  return text;
}

}  // namespace ddp::job
