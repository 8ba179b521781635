// How transports over sockets wait: woken by data, by the control thread, and by the deadline; and
// how long they still listen for a peer that has ended. Owned by one call at a time.
#pragma once

#include <poll.h>

#include <optional>
#include <span>

#include "runtime/comm/call.h"
#include "runtime/comm/control.h"

namespace ddp::rt::comm {

// Polls. The last entry is the transport's interrupt (an eventfd): when that fires it is cleared,
// and the failure is thrown if the group is broken. Returns how many entries have something, 0 once
// `left` has passed.
int PollOrInterrupt(std::span<pollfd> entries, Deadline::Milliseconds left, Control& control);

// What a peer sent before it ended may still be under way, so it is waited for a second longer.
class LastWords {
 public:
  // Something arrived: the second begins anew.
  void Reset() { until_.reset(); }
  // Of the second, which begins with the first call; once it is over, fails the group because
  // `peer` is gone while `call` needs it.
  Deadline::Milliseconds Left(Control& control, int peer, const Call& call);

 private:
  std::optional<Deadline> until_;
};

}  // namespace ddp::rt::comm
