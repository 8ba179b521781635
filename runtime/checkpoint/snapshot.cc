#include "runtime/checkpoint/snapshot.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace ddp::rt::checkpoint {
namespace {

constexpr size_t kHugePage = 2 << 20;

}  // namespace

Snapshot::~Snapshot() { Release(); }

void Snapshot::Release() {
  if (data_ != nullptr) {
    munmap(data_, size_);
    data_ = nullptr;
    size_ = 0;
  }
}

void Snapshot::Reserve(size_t bytes) {
  if (bytes <= size_) {
    return;
  }
  Release();
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  // A kernel without huge pages does without.
  madvise(memory, rounded, MADV_HUGEPAGE);
  std::memset(memory, 0, rounded);
  data_ = static_cast<std::byte*>(memory);
  size_ = rounded;
}

}  // namespace ddp::rt::checkpoint
