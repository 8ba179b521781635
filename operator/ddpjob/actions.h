// Which actions lead from the observed pods to what the status — already decided — wants. Pure.
#pragma once

#include <vector>

#include "operator/ddpjob/plan.h"

namespace ddp::job {

// But for the end of the job itself and for what needs a look at nodes.
std::vector<Action> ActionsFor(const Observed& observed, const api::Status& status, TimePoint now);

}  // namespace ddp::job
