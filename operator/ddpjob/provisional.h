// Causes are booked provisionally: a node turns NotReady after 50 s, and its pods' marks come
// minutes later. Within a window a count moves to its true cause. Pure.
#pragma once

#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

// Whether a node's death could be behind this failure: killed, terminated, out of reach of its
// peers or standing still, and not longer ago than the window.
bool MayMove(const api::Failure& failure, TimePoint now);
// The rank of such a failure only noticed: the culprit is another of its attempt.
bool BlamesOthers(const api::Failure& failure);

// Moves what pods' marks and unwell nodes prove by now; true when the newest failure moved. The
// counts move too, but for a failure that was not booked yet (status.give_up_time is set).
bool MoveCauses(const std::vector<PodRecord>& pods, const NodeLooks& nodes, api::Status& status,
                TimePoint now);

}  // namespace ddp::job
