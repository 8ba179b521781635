// A loss curve as an inline SVG. Pure.
#pragma once

#include <string>
#include <vector>

#include "operator/page/training_history.h"

namespace ddp::page {

// "" for fewer than two points.
std::string LossCurve(const std::vector<LossPoint>& points);

}  // namespace ddp::page
