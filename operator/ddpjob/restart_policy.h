// Whether a failed attempt is followed by another, and when: budgets and backoff. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/ddpjob/exit_policy.h"

namespace ddp::job {

struct RestartDecision {
  enum class Kind {
    kRestart,  // at next_attempt_time; counters are booked
    kWait,     // the budget is spent, but the cause may still move: fail at give_up_time
    kFail,
  };
  Kind kind = Kind::kRestart;
  api::Budget budget;  // after booking
  TimePoint next_attempt_time;
  TimePoint give_up_time;
  std::string reason;   // of kFail and kWait
  std::string message;  // the rule that applied, for people
  bool operator==(const RestartDecision&) const = default;
};

// The budget as it is now: anew after a checkpoint that is newer than the one at the last failure,
// or when the attempt has run for 10 minutes as a whole (`running_time`: since when).
api::Budget RenewedBudget(const api::Budget& budget,
                          const std::optional<api::CheckpointState>& checkpoint,
                          const std::optional<TimePoint>& running_time, TimePoint now);

RestartDecision DecideRestart(const api::Restart& rules, const api::Budget& renewed,
                              const Verdict& verdict, bool nodes_can_fail, TimePoint now);

}  // namespace ddp::job
