#include "operator/ddpjob/restart_policy.h"

#include <fmt/format.h>

#include "operator/base/backoff.h"

namespace ddp::job {
namespace {

using std::chrono::seconds;

RestartDecision Fail(const api::Budget& budget, const char* reason, std::string message) {
  RestartDecision decision;
  decision.kind = RestartDecision::Kind::kFail;
  decision.budget = budget;
  decision.reason = reason;
  decision.message = std::move(message);
  return decision;
}

}  // namespace

RestartDecision DecideRestart(const api::Restart& rules, const api::Budget& old_budget,
                              const std::optional<TimePoint>& running_time, const Verdict& verdict,
                              bool nodes_can_fail, TimePoint now) {
  api::Budget budget = old_budget;
  if (running_time && now - *running_time >= api::kBudgetRenewal) {
    budget = {};
  }
  if (verdict.action == FailureAction::kFail) {
    return Fail(budget, verdict.reason.c_str(),
                "its exit code says that a restart would not help: correct what it reports, then "
                "create the job again");
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
