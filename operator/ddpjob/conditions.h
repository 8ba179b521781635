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

}  // namespace ddp::job
