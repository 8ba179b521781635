// The answer of rank 0's GET /progress → typed values. The text comes out of a user's container and
// may be anything: what is malformed, out of range or not finite is left out, and nothing that is
// kept can grow. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "operator/api/types.h"
#include "operator/base/result.h"

namespace ddp::job {

// One rank, as rank 0 sees it.
struct RankProgress {
  int rank = 0;
  int64_t step = 0;
  std::optional<double> wait_seconds;  // in collectives, so far
  std::optional<api::TimePoint> last_heartbeat;
  bool operator==(const RankProgress&) const = default;
};

struct ProgressReply {
  api::Progress progress;
  std::optional<int64_t> epochs;  // how many there will be; for people only
  std::optional<api::CheckpointState> checkpoint;
  std::vector<RankProgress> ranks;  // in the order given; for people only
  bool operator==(const ProgressReply&) const = default;
};

// kInvalid, with a short sentence part ("is not JSON"), for a text without a step: the same words
// for the same trouble.
base::Result<ProgressReply> ReadProgress(std::string_view text);

}  // namespace ddp::job
