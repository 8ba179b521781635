// What the end of one pod means: the table of exit codes (documentation, "Exit codes"). Pure.
#pragma once

#include <string>
#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

using api::FailureAction;

struct Verdict {
  FailureAction action = FailureAction::kRestart;
  api::Cause cause = api::Cause::kApplication;
  std::string reason;
  // The proof that it was a node or a preemption may still come (the kubelet of a dead node is
  // silent, its exit codes look like a crash).
  bool provisional = false;
  // Of kFail: the reason of the condition Failed, where it is not `reason`, and what follows from
  // it for people.
  std::string fail_reason = {};
  std::string note = {};
  bool operator==(const Verdict&) const = default;
};

// For a pod that failed, is being deleted by somebody, or is gone (reason kReasonPodDeleted).
Verdict JudgePod(const PodRecord& pod);

// No step for too long: as spec.progress.onStall says.
Verdict JudgeStall(api::OnStall on_stall);

// The first of spec.restart.rules that matches changes what follows; its own counts then are those
// of the action. Rules of exit codes say nothing of a pod that a node, an eviction or a deletion
// ended.
Verdict ApplyRules(const std::vector<api::RestartRule>& rules, const PodRecord& pod,
                   Verdict verdict);

// For an attempt: `first` is its first cause (first_cause.h), `all_unavailable` says that every
// rank ended with 69, `ran` that every rank had started. An attempt that never ran as a whole is
// never the application's fault.
Verdict JudgeAttempt(const PodRecord& first, bool all_unavailable, bool ran,
                     const std::vector<api::RestartRule>& rules = {});

// preemption or infrastructure, for a reason of the condition DisruptionTarget.
api::Cause CauseOfDisruption(std::string_view reason);

// "exited with code 137 (SIGKILL)", "was deleted", "failed: Evicted"
std::string DescribeEnd(const PodRecord& pod);

}  // namespace ddp::job
