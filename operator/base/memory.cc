#include "operator/base/memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace ddp::base {
namespace {

constexpr int kHeaps = 2;
constexpr int kOwnMappingFrom = 128
                                << 10;  // a large buffer goes back to the system when it is freed
constexpr int kTrimFrom = 256 << 10;

}  // namespace

void KeepHeapSmall() {
  mallopt(M_ARENA_MAX, kHeaps);
  mallopt(M_MMAP_THRESHOLD, kOwnMappingFrom);
  mallopt(M_TRIM_THRESHOLD, kTrimFrom);
}

void TrimHeap() { malloc_trim(0); }

void UnmapStartupCode() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    // "from-to r-xp offset device inode path": code of a file, which nothing has written to.
    const std::string_view text(line);
    if (text.find(" r-xp ") == std::string_view::npos || text.find('/') == std::string_view::npos) {
      continue;
    }
    uintptr_t from = 0;
    uintptr_t to = 0;
    const char* end = line.data() + line.size();
    const auto dash = std::from_chars(line.data(), end, from, 16);
    if (dash.ec == std::errc() && std::from_chars(dash.ptr + 1, end, to, 16).ec == std::errc()) {
      // The kernel's interface takes addresses as pointers. A refusal costs memory, nothing else.
      // NOLINTNEXTLINE(performance-no-int-to-ptr): they are read as text, there is no other way
      (void)madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
    }
  }
}

}  // namespace ddp::base
