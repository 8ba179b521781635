#include "runtime/train/exchange.h"

#include <cmath>

namespace ddp::rt::train {

Exchange::Exchange(comm::ProcessGroup& group)
    : group_(group), all_(static_cast<size_t>(group.world_size())) {}

void Exchange::Start(bool stop, double loss) {
  mine_ = {.stop = stop ? 1.0 : 0.0, .loss = loss};
  work_ = group_.AllGather(&mine_, all_.data(), sizeof(Message), {.name = "stop flags and losses"});
}

Exchange::Result Exchange::Finish() {
  work_->Wait();
  Result result;
  for (size_t rank = 0; rank < all_.size(); ++rank) {
    result.loss += all_[rank].loss;
    if (!std::isfinite(all_[rank].loss) && result.first_not_finite < 0) {
      result.first_not_finite = static_cast<int>(rank);
    }
    if (all_[rank].stop != 0 && !result.stop) {
      result.stop = true;
      result.first_to_stop = static_cast<int>(rank);
    }
  }
  result.loss /= static_cast<double>(all_.size());
  return result;
}

}  // namespace ddp::rt::train
