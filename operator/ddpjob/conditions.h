// What a status says to people: counts, the conditions (but Failed and Stalled, which the decisions
// set), and the sentences in them. Pure.
#pragma once

#include <string>

#include "operator/ddpjob/group.h"
#include "operator/ddpjob/plan.h"

namespace ddp::job {

struct Summary {
  api::Status status;
  std::optional<base::Duration> wake_up;  // from now: nothing else tells when this is over
};

// Fills counts and conditions of a decided status.
Summary Summarize(const Observed& observed, const Group& group, api::Status status, TimePoint now);

// "rank 1 (pod mnist-1-1) exited with code 78: <last line of its log>"; "ranks 8-11 (pod …" where a
// pod has several.
std::string Sentence(const api::Failure& failure, int processes);

Urgency UrgencyOf(const api::Status& before, api::Status after);

// Adds to a job's status what an earlier plan found out and nobody wrote yet: a rank that is done
// stays done though its pod goes. The status may know more by now, from a write whose answer was
// lost. False if it is of another attempt, which those facts say nothing of.
bool AddUnwritten(const api::Status& unwritten, api::Status& status);

}  // namespace ddp::job
