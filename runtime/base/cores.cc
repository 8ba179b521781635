#include "runtime/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>

namespace ddp::rt {
namespace {

// The processor time that a container may use, in cores; nothing if it is not limited.
std::optional<int> CgroupCores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (file >> quota >> period && period > 0) {  // "max" is no number
    return std::max(1, static_cast<int>(quota / period));
  }
  return std::nullopt;
}

}  // namespace

int UsableCores() {
  cpu_set_t set;
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(allowed, CgroupCores().value_or(allowed)));
}

}  // namespace ddp::rt
