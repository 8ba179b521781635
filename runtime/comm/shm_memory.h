// Memory shared by the ranks of one host: an anonymous file (memfd) that has no name anywhere, is
// handed over a Unix socket, and vanishes with the last process that has it. And the futex wait
// across processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/base/net.h"

namespace ddp::rt::comm {

Fd CreateSharedFile();
// One descriptor with one byte over a connected Unix socket. Error(kUnavailable) at the deadline.
void SendDescriptor(const Fd& socket, const Fd& descriptor, const Deadline& deadline);
Fd ReceiveDescriptor(const Fd& socket, const Deadline& deadline);

// Makes the file at least this long. Never shrinks.
void GrowSharedFile(const Fd& file, std::size_t size);
// Takes the memory now, so that too little of it is an error here and not a signal later.
void ReserveSharedFile(const Fd& file, std::size_t offset, std::size_t size);

// A stretch of the file, mapped for reading and writing.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Fd& file, std::size_t offset, std::size_t size);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

// Gives a stretch of the file back to the system; it reads as zeros afterwards.
void PunchSharedFile(const Fd& file, std::size_t offset, std::size_t size);

std::size_t RoundUpToPage(std::size_t size);

// Sleeps while the word has this value, until woken or that moment; may wake for nothing.
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t value,
               Deadline::Clock::time_point until);
void FutexWakeAll(std::atomic<std::uint32_t>& word);

}  // namespace ddp::rt::comm
