#include "runtime/base/deadline.h"

#include <fmt/format.h>

namespace ddp::rt {

std::string Deadline::TimeoutText() const {
  return fmt::format("{} s", static_cast<double>(timeout_.count()) / 1000.0);
}

}  // namespace ddp::rt
