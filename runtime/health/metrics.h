// The body of /metrics: the board as Prometheus text. Pure: everything is read when asked for.
#pragma once

#include <string>

#include "runtime/health/heartbeat.h"
#include "runtime/train/board.h"

namespace ddp::rt::health {

// `ranks` is null where they are not known; rank 0 exports the lag of every rank, so that a scraper
// need not ask them all. Its label values are the ranks, a closed set.
std::string FormatMetrics(const train::Board& board, const Heartbeat::Ranks* ranks);

}  // namespace ddp::rt::health
