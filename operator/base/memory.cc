#include "operator/base/memory.h"

#include <malloc.h>

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

}  // namespace ddp::base
