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
#include "operator/ddpjob/provisional.h"
#include "operator/ddpjob/restart_policy.h"

namespace ddp::job {
namespace {

using api::Phase;
using std::chrono::seconds;

class Planner {
 public:
  Planner(const Observed& observed, TimePoint now)
      : observed_(observed), now_(now), now_seconds_(std::chrono::floor<seconds>(now)) {
    plan_.status = observed.job.status;
  }

  Plan Run() {
    if (observed_.job.metadata.deletion_time) {
      return std::move(plan_);  // the garbage collector takes the children, by their owner
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
    plan_.urgency = UrgencyOf(observed_.job.status, status());
    return std::move(plan_);
  }

 private:
  api::Status& status() { return plan_.status; }

  void Decide() {
    if (!status().start_time) {
      status().start_time = now_seconds_;
    }
    if (!observed_.problems.empty()) {
      Fail(api::kReasonInvalidSpec, api::Join(observed_.problems));
      return;
    }
    const bool moved = MoveCauses(observed_.pods, status(), now_);
    const Group group(observed_, status().attempt);
    if (status().phase == Phase::kRestarting) {
      WaitForNextAttempt(group, moved);
    } else if (group.newest_attempt() > status().attempt) {
      // Labels tell of an attempt that status does not know: its pods may belong to any decision.
      status().attempt = group.newest_attempt();
      Abandon(group, api::kReasonStatusLost);
    } else if (status().attempt == 0) {
      BeginAttempt(group);
    } else if (!Refused(group)) {
      Watch(group);
    }
  }

  void BeginAttempt(const Group& group) {
    api::Status& s = status();
    const bool first = s.attempt == 0;
    s.attempt = std::max(s.attempt, group.newest_attempt()) + 1;
    s.phase = first ? Phase::kPending : Phase::kStarting;
    s.succeeded_ranks = {};
    s.pods_created_time.reset();
    s.running_time.reset();
    s.next_attempt_time.reset();
    s.give_up_time.reset();
    Say(false, first ? api::kReasonCreated : api::kReasonRestarting,
        fmt::format("attempt {} begins with {} {}", s.attempt, observed_.job.spec.replicas,
                    observed_.job.spec.replicas == 1 ? "rank" : "ranks"));
  }

  // Gives an attempt up that did not fail by itself; nothing is counted.
  void Abandon(const Group& group, std::string_view reason) {
    status().phase = Phase::kRestarting;
    status().next_attempt_time = now_seconds_;
    Say(true, reason, fmt::format("attempt {} can't be used, the next begins", status().attempt));
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
        Abandon(group, api::kReasonPodNameTaken);
        return true;
      case CreateFailure::Kind::kTransient:
        WakeAt(now_ + api::kBlockedRetry);
        return false;
    }
    return false;
  }

  void Watch(const Group& group) {
    api::Status& s = status();
    for (const PodRecord* pod : group.by_rank()) {
      if (pod != nullptr && pod->succeeded()) {
        s.succeeded_ranks.Add(pod->rank);
      }
    }
    if (!s.pods_created_time && group.MissingRanks(s.succeeded_ranks).empty()) {
      s.pods_created_time = now_seconds_;
    }
    if (!s.running_time && group.AllStarted(s.succeeded_ranks)) {
      s.running_time = now_seconds_;
      Say(false, api::kReasonRunning, fmt::format("attempt {}: every rank has started", s.attempt));
    }
    if (s.running_time) {
      s.phase = std::max(s.phase, Phase::kRunning);
    } else if (group.AnyScheduled()) {
      s.phase = std::max(s.phase, Phase::kStarting);
    }
    if (s.succeeded_ranks.size() == observed_.job.spec.replicas) {
      Succeed();
      return;
    }
    const std::vector<PodRecord> failed = group.Failed(observed_.job.metadata, s);
    if (!failed.empty()) {
      HandleFailure(group, failed);
    }
  }

  void HandleFailure(const Group& group, const std::vector<PodRecord>& failed) {
    const PodRecord& first = failed[FirstCause(failed)];
    if (IsConsequence(first) && group.AnyUndecided(status().succeeded_ranks) &&
        first.finished_time && now_ >= *first.finished_time &&
        now_ < *first.finished_time + api::kPeerSettle) {
      WakeAt(*first.finished_time + api::kPeerSettle);  // the culprit's own end may be under way
      return;
    }
    const bool all_unavailable =
        failed.size() == static_cast<size_t>(observed_.job.spec.replicas) &&
        std::all_of(failed.begin(), failed.end(), [](const PodRecord& pod) {
          return pod.exit_code == static_cast<int>(api::ExitCode::kUnavailable);
        });
    const Verdict verdict = JudgeAttempt(first, all_unavailable, status().running_time.has_value());
    Remember(first, verdict);
    Restart(verdict);
    if (!status().finished()) {
      Say(true, verdict.reason, Sentence(status().failures.front()));
    }
  }

  void Remember(const PodRecord& pod, const Verdict& verdict) {
    api::Failure failure;
    failure.attempt = pod.attempt;
    failure.rank = pod.rank;
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
    failure.time = now_seconds_;
    auto& list = status().failures;
    list.insert(list.begin(), std::move(failure));
    list.resize(std::min(list.size(), api::kMaxFailures));
  }

  void Restart(const Verdict& verdict) {
    api::Status& s = status();
    const RestartDecision decision =
        DecideRestart(observed_.job.spec.restart, s.budget, s.running_time, verdict,
                      observed_.nodes_can_fail, now_);
    s.budget = decision.budget;
    switch (decision.kind) {
      case RestartDecision::Kind::kFail:
        Fail(decision.reason,
             fmt::format("{}; {}", Sentence(s.failures.front()), decision.message));
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
                         s.failures.empty() ? "the attempt failed" : Sentence(s.failures.front()),
                         observed_.job.spec.restart.max_restarts));
      } else {
        WakeAt(s.give_up_time);
      }
      return;
    }
    const TimePoint due = s.next_attempt_time.value_or(now_);
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
    api::SetCondition(status(), api::kConditionFailed, api::ConditionStatus::kTrue, reason, message,
                      observed_.job.metadata.generation, now_seconds_);
    Say(true, reason, message);
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
