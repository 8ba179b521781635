// A plan as sentences: what a dry run would have done. Pure.
#pragma once

#include <string>
#include <vector>

#include "operator/ddpjob/plan.h"

namespace ddp::job {

// Empty for a plan that changes nothing. Status first, then the children, then the events, in the
// order in which a body carries them out.
std::vector<std::string> DescribePlan(const Observed& observed, const Plan& plan);

}  // namespace ddp::job
