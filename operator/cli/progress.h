// How far a training is, as text for people. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "operator/api/types.h"

namespace ddp::cli {

// "step 430/1000  epoch 3/15  loss 0.1234  5120 samples/s  0:21 left"; `epochs`: how many there
// are.
std::string Describe(const api::Progress& progress, const std::optional<int64_t>& epochs);
// "[=====>    ]  43%  " + Describe(), cut to `columns`
std::string Bar(const api::Progress& progress, const std::optional<int64_t>& epochs,
                size_t columns);

}  // namespace ddp::cli
