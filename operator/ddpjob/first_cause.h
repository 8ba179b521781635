// Which of several failed pods broke the group: a mark of disruption or a deletion first, then any
// code but 69 and 143 (those follow from another's end), then the earliest end, then the lowest
// rank. Pure.
#pragma once

#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

// The index of the first cause; `failed` must not be empty.
size_t FirstCause(const std::vector<PodRecord>& failed);

// True for an end that only follows from another rank's (69, 143 without a mark).
bool IsConsequence(const PodRecord& pod);

}  // namespace ddp::job
