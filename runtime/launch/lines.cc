#include "runtime/launch/lines.h"

#include <algorithm>

namespace ddp::rt::launch {

void Lines::Feed(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    const size_t room = kLongest - open_.size();
    const size_t length = std::min(whole ? end : bytes.size(), room);
    open_.append(bytes.substr(0, length));
    bytes.remove_prefix(length);
    if (length == end) {
      bytes.remove_prefix(1);
      Emit(take);
    } else if (open_.size() == kLongest) {
      Emit(take);
    }
  }
}

void Lines::Finish(const Take& take) {
  if (!open_.empty()) {
    Emit(take);
  }
}

void Lines::Emit(const Take& take) {
  take(open_);
  last_.push_back(std::move(open_));
  open_.clear();
  if (last_.size() > kKept) {
    last_.pop_front();
  }
}

}  // namespace ddp::rt::launch
