#include "runtime/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace ddp::rt {

void Die(const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, message.c_str());
  std::abort();
}

}  // namespace ddp::rt
