// Causes are booked provisionally: a node turns NotReady after 50 s, and its pods' marks come
// minutes later. Within a window a count moves to its true cause. Pure.
#pragma once

#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

// Moves what the pods' marks prove by now; true when the newest failure moved. The counts move too,
// but for a failure that was not booked yet (status.give_up_time is set).
bool MoveCauses(const std::vector<PodRecord>& pods, api::Status& status, TimePoint now);

}  // namespace ddp::job
