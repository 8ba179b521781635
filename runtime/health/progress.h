// The body of /progress: how the run is going, as JSON for the operator and the progress bar.
// Pure: a board in, text out. Rank 0's also lists all ranks.
#pragma once

#include <string>

#include "runtime/health/heartbeat.h"
#include "runtime/train/board.h"

namespace ddp::rt::health {

// `ranks` is null where they are not known. A number that is not known yet is null.
std::string FormatProgress(const train::Board& board, const Heartbeat::Ranks* ranks);

}  // namespace ddp::rt::health
