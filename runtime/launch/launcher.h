// `ddp-worker launch`: several ranks of one program on this node, started again after a failure if
// so wanted. Needs no torch. Called by main() while it has no other threads.
#pragma once

#include "runtime/launch/options.h"

namespace ddp::rt::launch {

// The exit code: the first failed rank's (128 + signal if a signal ended it), 75 if the ranks
// stopped on request, 0 if all succeeded.
int Launch(const Options& options);

}  // namespace ddp::rt::launch
