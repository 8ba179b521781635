// Memory for a copy of what is being saved. Its pages are there before they are needed, so copying
// costs the training thread no page faults. Owned by the saver.
#pragma once

#include <cstddef>
#include <span>

namespace ddp::rt::checkpoint {

class Snapshot {
 public:
  Snapshot() = default;
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // Makes sure of so many bytes; what was there before is lost when it grows. std::bad_alloc if the
  // memory can't be had.
  void Reserve(size_t bytes);
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  void Release();

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ddp::rt::checkpoint
