#include "runtime/comm/shm_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "runtime/base/error.h"

namespace ddp::rt::comm {
namespace {

[[noreturn]] void Fail(const char* what, int error) {
  throw Error(ExitCode::kUnavailable, fmt::format("shared memory: {}: {}", what, ErrnoText(error)));
}

// A message of one byte with room for one descriptor.
struct DescriptorMessage {
  char byte = 0;
  iovec span{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};

  DescriptorMessage() {
    header.msg_iov = &span;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
};

}  // namespace

Fd CreateSharedFile() {
  Fd fd(memfd_create("ddp", MFD_CLOEXEC));
  if (!fd) {
    Fail("cannot create it", errno);
  }
  return fd;
}

void SendDescriptor(const Fd& socket, const Fd& descriptor, const Deadline& deadline) {
  DescriptorMessage message;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = descriptor.get();
  std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  while (sendmsg(socket.get(), &message.header, MSG_NOSIGNAL) != 1) {
    if (errno != EAGAIN && errno != EINTR) {
      Fail("cannot hand it over", errno);
    }
    if (!WaitFor(socket, POLLOUT, deadline)) {
      Fail("cannot hand it over", ETIMEDOUT);
    }
  }
}

Fd ReceiveDescriptor(const Fd& socket, const Deadline& deadline) {
  DescriptorMessage message;
  ssize_t n = -1;
  while ((n = recvmsg(socket.get(), &message.header, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      Fail("cannot take it over", errno);
    }
    if (!WaitFor(socket, POLLIN, deadline)) {
      Fail("cannot take it over", ETIMEDOUT);
    }
  }
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  if (n != 1 || rights == nullptr || rights->cmsg_type != SCM_RIGHTS) {
    throw Error(ExitCode::kUnavailable, "shared memory: rank 0 has not handed it over");
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
  return Fd(fd);
}

void GrowSharedFile(const Fd& file, std::size_t size) {
  if (ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    Fail("cannot size it", errno);
  }
}

void ReserveSharedFile(const Fd& file, std::size_t offset, std::size_t size) {
  const int error =
      size == 0 ? 0
                : posix_fallocate(file.get(), static_cast<off_t>(offset), static_cast<off_t>(size));
  if (error != 0) {
    Fail(fmt::format("no {} bytes of memory left", size).c_str(), error);
  }
}

void PunchSharedFile(const Fd& file, std::size_t offset, std::size_t size) {
  // Memory that cannot be given back early goes when the group ends.
  static_cast<void>(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(offset), static_cast<off_t>(size)));
}

std::size_t RoundUpToPage(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

Mapping::Mapping(const Fd& file, std::size_t offset, std::size_t size) : size_(size) {
  if (size == 0) {
    return;
  }
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                          static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    Fail("cannot map it", errno);
  }
  data_ = static_cast<char*>(data);
}

Mapping::~Mapping() {
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t value,
               Deadline::Clock::time_point until) {
  const auto left =
      std::chrono::duration_cast<std::chrono::nanoseconds>(until - Deadline::Clock::now()).count();
  if (left <= 0) {
    return;
  }
  constexpr long long kBillion = 1'000'000'000;
  const timespec timeout{static_cast<time_t>(left / kBillion), static_cast<long>(left % kBillion)};
  // Not FUTEX_PRIVATE: the word is shared between processes.
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

void FutexWakeAll(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ddp::rt::comm
