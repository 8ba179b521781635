#include "runtime/comm/socket_wait.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/base/net.h"

namespace ddp::rt::comm {

int PollOrInterrupt(std::span<pollfd> entries, Deadline::Milliseconds left, Control& control) {
  constexpr long long kLongest = std::numeric_limits<int>::max();
  const int rc = poll(entries.data(), entries.size(),
                      static_cast<int>(std::min<long long>(left.count(), kLongest)));
  DDP_RT_CHECK(rc >= 0 || errno == EINTR, ErrnoText(errno));
  if (entries.back().revents != 0) {
    eventfd_t ignored = 0;
    eventfd_read(entries.back().fd, &ignored);
    control.Check();
  }
  return rc;
}

Deadline::Milliseconds LastWords::Left(Control& control, int peer, const Call& call) {
  constexpr Deadline::Milliseconds kGrace(1000);
  if (!until_) {
    until_ = Deadline::In(kGrace, "");
  } else if (until_->Expired()) {
    control.FailGone(peer, ShortName(call));
  }
  return until_->Left();
}

}  // namespace ddp::rt::comm
