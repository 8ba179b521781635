// Exponential backoff: the n-th failure in a row waits min(cap, base·2^(n-1)).
// A pure function, so that policies can be tested as tables; callers add jitter where many clients
// might fall into step.
#pragma once

#include <algorithm>

#include "operator/base/clock.h"

namespace ddp::base {

// failures ≤ 0 waits nothing. Never overflows, whatever the count.
inline Duration ExponentialDelay(int failures, Duration base, Duration cap) {
  if (failures <= 0) {
    return Duration::zero();
  }
  Duration delay = base;
  for (int i = 1; i < failures && delay < cap; ++i) {
    delay *= 2;
  }
  return std::min(delay, cap);
}

}  // namespace ddp::base
