// Which of several failed pods broke the group, and what status.failures says of it: a mark of
// disruption or a deletion first, then any code but 69 and 143 (those follow from another's end),
// then the earliest end, then the lowest rank. Pure.
#pragma once

#include <vector>

#include "operator/ddpjob/exit_policy.h"
#include "operator/ddpjob/observed.h"

namespace ddp::job {

// The index of the first cause; `failed` must not be empty.
size_t FirstCause(const std::vector<PodRecord>& failed);

// True for an end that only follows from another rank's (69, 143 without a mark).
bool IsConsequence(const PodRecord& pod);

// `processes`: ranks of a pod; the pod's first stands for all of them.
api::Failure FailureOf(const PodRecord& pod, const Verdict& verdict, int processes, TimePoint now);

}  // namespace ddp::job
