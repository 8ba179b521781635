// One pass: look at what the attempt amounts to, move the status, then derive conditions and
// actions from the new status. Nothing is decided in the actions, so a body that wrote the status
// and died before acting loses nothing: the next pass derives the same actions.
#include "operator/ddpjob/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/api/names.h"
#include "operator/api/text.h"
#include "operator/ddpjob/actions.h"
#include "operator/ddpjob/conditions.h"
#include "operator/ddpjob/first_cause.h"
#include "operator/ddpjob/group.h"
#include "operator/ddpjob/node_policy.h"
#include "operator/ddpjob/progress_policy.h"
#include "operator/ddpjob/provisional.h"
#include "operator/ddpjob/restart_policy.h"
#include "operator/ddpjob/startup_policy.h"
#include "operator/ddpjob/timers.h"

namespace ddp::job {
namespace {

using api::Phase;
using std::chrono::seconds;

bool IsOurs(const api::Spec& spec) {
  return spec.managed_by.empty() || spec.managed_by == api::kManagedBy;
}

class Planner {
 public:
  Planner(const Observed& observed, TimePoint now)
      : observed_(observed), now_(now), now_seconds_(std::chrono::floor<seconds>(now)) {
    plan_.status = observed.job.status;
  }

  Plan Run() {
    // Of a job that is being deleted the garbage collector takes the children, by their owner.
    if (observed_.job.metadata.deletion_time || !IsOurs(spec())) {
      return std::move(plan_);
    }
    status().observed_generation = observed_.job.metadata.generation;
    if (!status().finished()) {
      Decide();
    }
    const Group group(observed_, status().attempt);
    Summary summary = Summarize(observed_, group, status(), now_seconds_);
    status() = std::move(summary.status);
    WakeAt(summary.wake_up ? std::optional(now_ + *summary.wake_up) : std::nullopt);
    plan_.actions = ActionsFor(observed_, status(), now_);
    LookAtNodes();
    WakeAt(DeadlineOf(spec(), status()));
    Expire();
    plan_.urgency = UrgencyOf(observed_.job.status, status());
    return std::move(plan_);
  }

 private:
  api::Status& status() { return plan_.status; }
  const api::Spec& spec() const { return observed_.job.spec; }

  void Decide() {
    if (!observed_.problems.empty()) {
      Fail(api::kReasonInvalidSpec, api::Join(observed_.problems));
      return;
    }
    const bool moved = MoveCauses(observed_.pods, observed_.nodes, status(), now_);
    const Group group(observed_, status().attempt);
    if (spec().suspend) {
      Suspend(group);
      return;
    }
    if (status().phase == Phase::kSuspended) {
      Resume(group);
      return;
    }
    if (!status().start_time) {
      status().start_time = now_seconds_;
    }
    if (PastDeadline()) {
      return;
    }
    const bool restart_requested = TakeRestartRequest();
    if (status().phase == Phase::kRestarting) {
      WaitForNextAttempt(group, moved);
    } else if (group.newest_attempt() > status().attempt && !BeginsWith(group)) {
      // Labels tell of an attempt that status does not know: its pods may belong to any decision.
      status().attempt = group.newest_attempt();
      Abandon(group, true, api::kReasonStatusLost);
    } else if (status().attempt == 0) {
      BeginAttempt(group);
      const Group begun(observed_, status().attempt);
      // Rank 0 may have been made before its service was found to be somebody else's: it goes
      // again.
      if (!Blocked() && !Refused(begun)) {
        Watch(begun);
      }
    } else if (restart_requested) {
      Abandon(group, false, api::kReasonRestartRequested);
    } else if (!Blocked() && !Refused(group)) {
      Watch(group);
    }
  }

  // Before the service is the job's own no attempt is complete, so no pod can be lost.
  bool Blocked() {
    return observed_.service == ServiceState::kForeign && !status().pods_created_time;
  }

  // ---- the life of the job ----------------------------------------------------------------------

  void Suspend(const Group& group) {
    api::Status& s = status();
    TakeRestartRequest();
    if (s.phase == Phase::kSuspended) {
      return;
    }
    if (s.attempt > 0 && s.phase != Phase::kRestarting) {
      group.AddDone(s.succeeded_ranks);
      if (s.succeeded_ranks.size() == spec().ranks()) {
        Succeed();
        return;
      }
    }
    s.phase = Phase::kSuspended;
    s.start_time.reset();
    s.next_attempt_time.reset();
    s.give_up_time.reset();
    Say(false, api::kReasonSuspended,
        fmt::format("suspended; attempt {} is given up with its own grace", s.attempt));
  }

  void Resume(const Group& group) {
    const auto stopped = StoppedBy(observed_.pods);
    if (!stopped || now_ < *stopped) {
      WakeAt(stopped);
      return;
    }
    Say(false, api::kReasonResumed, "resumed");
    status().start_time = now_seconds_;
    BeginAttempt(group);
  }

  bool PastDeadline() {
    const auto deadline = DeadlineOf(spec(), status());
    if (!deadline || now_ < *deadline) {
      return false;
    }
    Fail(api::kReasonDeadline,
         fmt::format("the job was not done {} s after {} (spec.activeDeadlineSeconds)",
                     *spec().active_deadline_seconds, base::FormatTime(*status().start_time)));
    return true;
  }

  // Each request counts once, whatever it finds; true for one that is new.
  bool TakeRestartRequest() {
    const api::Metadata& meta = observed_.job.metadata;
    const auto last =
        status().restart_request_time ? status().restart_request_time : meta.creation_time;
    if (!meta.restart_requested || (last && *meta.restart_requested <= *last)) {
      return false;
    }
    status().restart_request_time = meta.restart_requested;
    return true;
  }

  void Succeed() {
    status().phase = Phase::kSucceeded;
    status().completion_time = now_seconds_;
    Say(false, api::kReasonSucceeded,
        fmt::format("attempt {}: every rank succeeded", status().attempt));
  }

  void Fail(std::string_view reason, const std::string& message) {
    status().phase = Phase::kFailed;
    status().completion_time = now_seconds_;
    status().next_attempt_time.reset();
    status().give_up_time.reset();
    Set(api::kConditionFailed, api::ConditionStatus::kTrue, reason, message);
    Say(true, reason, message);
  }

  void Expire() {
    const auto expiry = ExpiryOf(spec(), status());
    if (expiry && now_ >= *expiry) {
      plan_.actions = {DeleteJob{}};
    } else {
      WakeAt(expiry);
    }
  }

  // ---- attempts ---------------------------------------------------------------------------------

  // The first pods of a job may be there before its first status is: nothing has been decided yet
  // that they could belong to, but attempt 1.
  bool BeginsWith(const Group& group) const {
    return observed_.job.status == api::Status{} && group.newest_attempt() <= 1;
  }

  void BeginAttempt(const Group& group) {
    api::Status& s = status();
    const bool first = s.attempt == 0;
    s.phase = first || s.phase == Phase::kSuspended ? Phase::kPending : Phase::kStarting;
    s.attempt = BeginsWith(group) ? 1 : std::max(s.attempt, group.newest_attempt()) + 1;
    s.succeeded_ranks = {};
    s.pods_created_time.reset();
    s.bound_time.reset();
    s.running_time.reset();
    s.step_time.reset();
    s.next_attempt_time.reset();
    s.give_up_time.reset();
    EndStall(api::kReasonRestarting, "a new attempt begins");
    Say(false, first ? api::kReasonCreated : api::kReasonRestarting,
        fmt::format("attempt {} begins with {} {}", s.attempt, spec().ranks(),
                    spec().ranks() == 1 ? "rank" : "ranks"));
  }

  // Gives an attempt up that did not fail by itself; nothing is counted.
  void Abandon(const Group& group, bool warning, std::string_view reason) {
    status().phase = Phase::kRestarting;
    status().next_attempt_time = now_seconds_;
    Say(warning, reason, fmt::format("attempt {} is given up, the next begins", status().attempt));
    WaitForNextAttempt(group, false);
  }

  // Deals with a creation that did not go through; true when that ended the pass.
  bool Refused(const Group& group) {
    const auto& failure = observed_.create_failure;
    if (!failure || failure->attempt != status().attempt) {
      return false;
    }
    switch (failure->kind) {
      case CreateFailure::Kind::kRefused:
        Fail(api::kReasonPodRefused,
             fmt::format("the pod that spec.template describes is refused: {}", failure->message));
        return true;
      case CreateFailure::Kind::kNameTaken:
        Abandon(group, true, api::kReasonPodNameTaken);
        return true;
      case CreateFailure::Kind::kTransient:
        WakeAt(now_ + api::kBlockedRetry);
        return false;
    }
    return false;
  }

  void Watch(const Group& group) {
    api::Status& s = status();
    group.AddDone(s.succeeded_ranks);
    NoteTimes(group);
    if (observed_.progress) {
      NoteProgress(*observed_.progress, s);
    }
    if (s.succeeded_ranks.size() == spec().ranks()) {
      Succeed();
      return;
    }
    const std::vector<PodRecord> failed = group.Failed(observed_.job.metadata, s);
    if (!failed.empty()) {
      HandleFailure(group, failed);
    } else if (!TimeOutStartup(group)) {
      HandleStall(group);
    }
  }

  void NoteTimes(const Group& group) {
    api::Status& s = status();
    if (!s.pods_created_time && group.Missing(s.succeeded_ranks).empty()) {
      s.pods_created_time = now_seconds_;
    }
    if (!s.bound_time && group.AnyScheduled()) {
      s.bound_time = now_seconds_;
    }
    if (!s.running_time && group.AllStarted(s.succeeded_ranks)) {
      s.running_time = now_seconds_;
      Say(false, api::kReasonRunning, fmt::format("attempt {}: every rank has started", s.attempt));
    }
    if (s.running_time) {
      s.phase = std::max(s.phase, Phase::kRunning);
    } else if (s.bound_time) {
      s.phase = std::max(s.phase, Phase::kStarting);
    }
  }

  // ---- failures ---------------------------------------------------------------------------------

  void HandleFailure(const Group& group, const std::vector<PodRecord>& failed) {
    const PodRecord& first = failed[FirstCause(failed)];
    if (IsConsequence(first) && group.AnyUndecided(status().succeeded_ranks) &&
        first.finished_time && now_ >= *first.finished_time &&
        now_ < *first.finished_time + api::kPeerSettle) {
      WakeAt(*first.finished_time + api::kPeerSettle);  // the culprit's own end may be under way
      return;
    }
    const bool all_unavailable =
        failed.size() == static_cast<size_t>(spec().replicas) &&
        std::all_of(failed.begin(), failed.end(), [](const PodRecord& pod) {
          return pod.exit_code == static_cast<int>(api::ExitCode::kUnavailable);
        });
    EndAttempt(first, JudgeAttempt(first, all_unavailable, status().running_time.has_value(),
                                   spec().restart.rules));
  }

  bool TimeOutStartup(const Group& group) {
    const auto due = StartupDueOf(spec(), status());
    if (!due || now_ < *due) {
      WakeAt(due);
      return false;
    }
    PodRecord late;
    late.attempt = status().attempt;
    if (const auto missing = group.Missing(status().succeeded_ranks); !missing.empty()) {
      late.rank = missing.front();  // not even created
      late.name = api::PodName(observed_.job.metadata.name, late.attempt, late.rank);
    }
    if (const PodRecord* pod = group.FirstNotStarted(status().succeeded_ranks); pod != nullptr) {
      late = *pod;
    }
    const auto trouble = FindStartupTrouble(group.by_replica(), spec().processes_per_replica);
    late.reason = api::kReasonStartupTimeout;
    late.message = fmt::format(
        "not every pod ran {} s after the first had a node "
        "(spec.startupTimeoutSeconds): {}",
        spec().startup_timeout_seconds, trouble ? trouble->message : "the kubelet gives no reason");
    EndAttempt(late, ApplyRules(spec().restart.rules, late,
                                {FailureAction::kRestartUncounted, api::Cause::kStartup,
                                 api::kReasonStartupTimeout, false}));
    return true;
  }

  void HandleStall(const Group& group) {
    const Stall stall = FindStall(spec().progress, status(), observed_.progress, now_);
    WakeAt(stall.due);
    if (!stall.stalled) {
      EndStall(api::kReasonNewStep, "rank 0 tells of new steps");
      return;
    }
    const auto* known = api::FindCondition(status(), api::kConditionStalled);
    if (known == nullptr || known->status != api::ConditionStatus::kTrue) {
      Say(true, api::kReasonStalled, stall.message);
    }
    Set(api::kConditionStalled, api::ConditionStatus::kTrue, api::kReasonStalled, stall.message);
    if (spec().progress.on_stall == api::OnStall::kReport) {
      return;
    }
    const int slowest = observed_.progress->progress.slowest_rank.value_or(0);
    const auto replica = static_cast<size_t>(std::max(slowest, 0) / spec().processes_per_replica);
    PodRecord culprit;
    culprit.attempt = status().attempt;
    if (replica < group.by_replica().size() && group.by_replica()[replica] != nullptr) {
      culprit = *group.by_replica()[replica];
    }
    culprit.reason = api::kReasonStalled;
    culprit.message = stall.message;
    EndAttempt(culprit,
               ApplyRules(spec().restart.rules, culprit, JudgeStall(spec().progress.on_stall)));
  }

  void EndStall(std::string_view reason, const std::string& message) {
    const auto* known = api::FindCondition(status(), api::kConditionStalled);
    if (known != nullptr && known->status == api::ConditionStatus::kTrue) {
      Set(api::kConditionStalled, api::ConditionStatus::kFalse, reason, message);
    }
  }

  void EndAttempt(const PodRecord& first, const Verdict& verdict) {
    Remember(first, verdict);
    Restart(verdict);
    if (!status().finished()) {
      Say(true, verdict.reason, SentenceOfLast());
    }
  }

  void Remember(const PodRecord& pod, const Verdict& verdict) {
    auto& list = status().failures;
    list.insert(list.begin(), FailureOf(pod, verdict, spec().processes_per_replica, now_seconds_));
    list.resize(std::min(list.size(), api::kMaxFailures));
  }

  std::string SentenceOfLast() {
    return status().failures.empty()
               ? "the attempt failed"
               : Sentence(status().failures.front(), spec().processes_per_replica);
  }

  void Restart(const Verdict& verdict) {
    api::Status& s = status();
    const api::Budget budget = RenewedBudget(s.budget, s.checkpoint, s.running_time, now_);
    const RestartDecision decision =
        DecideRestart(spec().restart, budget, verdict, observed_.nodes_can_fail, now_);
    s.budget = decision.budget;
    switch (decision.kind) {
      case RestartDecision::Kind::kFail:
        Fail(decision.reason, fmt::format("{}; {}", SentenceOfLast(), decision.message));
        return;
      case RestartDecision::Kind::kWait:
        s.phase = Phase::kRestarting;
        s.give_up_time = decision.give_up_time;
        WakeAt(s.give_up_time);
        return;
      case RestartDecision::Kind::kRestart:
        s.phase = Phase::kRestarting;
        s.give_up_time.reset();
        s.next_attempt_time = decision.next_attempt_time;
        ++s.restarts.Of(verdict.cause);
        WakeAt(s.next_attempt_time);
        return;
    }
  }

  void WaitForNextAttempt(const Group& group, bool moved) {
    api::Status& s = status();
    if (s.give_up_time && moved) {
      // It was a node after all: what was not booked yet is booked now, as what it is.
      const api::Failure& failure = s.failures.front();
      Restart({FailureAction::kRestartUncounted, failure.cause, failure.reason, false});
      return;
    }
    if (s.give_up_time) {
      if (now_ >= *s.give_up_time) {
        Fail(api::kReasonMaxRestarts,
             fmt::format("{}; all {} restarts are used (spec.restart.maxRestarts)",
                         SentenceOfLast(), spec().restart.max_restarts));
      } else {
        WakeAt(s.give_up_time);
      }
      return;
    }
    // A clock that was set back must not make a wait longer than any backoff is.
    const TimePoint due = std::min(s.next_attempt_time.value_or(now_),
                                   now_ + seconds(spec().restart.max_backoff_seconds));
    const auto stopped = StoppedBy(observed_.pods);
    if (!stopped) {
      return;  // the deletion below makes itself heard
    }
    if (now_ >= std::max(due, *stopped)) {
      BeginAttempt(group);
    } else {
      WakeAt(std::max(due, *stopped));
    }
  }

  void LookAtNodes() {
    const NodeQuestions questions = NodesToAsk(observed_, status(), now_);
    WakeAt(questions.next);
    if (!questions.nodes.empty()) {
      plan_.actions.emplace_back(AskNodes{questions.nodes});
    }
    for (const ForceDeletePod& deletion : PodsToForce(observed_, now_)) {
      plan_.actions.emplace_back(deletion);
    }
  }

  // ---- words ------------------------------------------------------------------------------------

  void Set(const char* condition, api::ConditionStatus value, std::string_view reason,
           const std::string& message) {
    api::SetCondition(status(), condition, value, reason, message,
                      observed_.job.metadata.generation, now_seconds_);
  }

  void Say(bool warning, std::string_view reason, const std::string& message) {
    plan_.events.push_back(
        {warning, std::string(reason), api::Cut(message, api::kMaxEventMessage)});
  }

  void WakeAt(const std::optional<TimePoint>& time) {
    if (time && (!plan_.wake_up || *time < *plan_.wake_up)) {
      plan_.wake_up = time;
    }
  }

  const Observed& observed_;
  TimePoint now_;
  TimePoint now_seconds_;
  Plan plan_;
};

}  // namespace

Plan MakePlan(const Observed& observed, TimePoint now) { return Planner(observed, now).Run(); }

}  // namespace ddp::job
