#include "operator/ddpjob/restart_policy.h"

#include <fmt/format.h>

#include "operator/base/backoff.h"

namespace ddp::job {
namespace {

using std::chrono::seconds;

RestartDecision Fail(const api::Budget& budget, std::string reason, std::string message) {
  RestartDecision decision;
  decision.kind = RestartDecision::Kind::kFail;
  decision.budget = budget;
  decision.reason = std::move(reason);
  decision.message = std::move(message);
  return decision;
}

}  // namespace

api::Budget RenewedBudget(const api::Budget& budget,
                          const std::optional<api::CheckpointState>& checkpoint,
                          const std::optional<TimePoint>& running_time, TimePoint now) {
  if (checkpoint && checkpoint->step > budget.checkpoint_step) {
    return {.checkpoint_step = checkpoint->step};
  }
  if (running_time && now - *running_time >= api::kBudgetRenewal) {
    return {.checkpoint_step = budget.checkpoint_step};
  }
  return budget;
}

RestartDecision DecideRestart(const api::Restart& rules, const api::Budget& renewed,
                              const Verdict& verdict, bool nodes_can_fail, TimePoint now) {
  api::Budget budget = renewed;
  if (verdict.action == FailureAction::kFail) {
    return Fail(budget, verdict.fail_reason.empty() ? verdict.reason : verdict.fail_reason,
                verdict.note);
  }
  if (verdict.action == FailureAction::kRestart) {
    if (budget.counted >= rules.max_restarts) {
      RestartDecision decision =
          Fail(budget, api::kReasonMaxRestarts,
               fmt::format("{} of {} restarts are used (spec.restart.maxRestarts)", budget.counted,
                           rules.max_restarts));
      if (verdict.provisional && nodes_can_fail) {
        decision.kind = RestartDecision::Kind::kWait;
        decision.give_up_time = std::chrono::ceil<seconds>(now + api::kExhaustedWait);
      }
      return decision;
    }
    ++budget.counted;
  } else {
    if (budget.uncounted >= rules.max_uncounted_restarts) {
      return Fail(budget, api::kReasonMaxUncounted,
                  fmt::format("{} of {} uncounted restarts in a row are used "
                              "(spec.restart.maxUncountedRestarts)",
                              budget.uncounted, rules.max_uncounted_restarts));
    }
    ++budget.uncounted;
  }
  RestartDecision decision;
  decision.budget = budget;
  // The first restart after progress is immediate.
  const base::Duration delay =
      base::ExponentialDelay(budget.counted + budget.uncounted - 1, seconds(rules.backoff_seconds),
                             seconds(rules.max_backoff_seconds));
  decision.next_attempt_time = delay == base::Duration::zero()
                                   ? TimePoint(std::chrono::floor<seconds>(now))
                                   : TimePoint(std::chrono::ceil<seconds>(now + delay));
  return decision;
}

}  // namespace ddp::job
