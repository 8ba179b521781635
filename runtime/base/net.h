// TCP sockets as the store and the transports need them: owned descriptors, addresses given by name
// or literal (IPv4, IPv6, brackets allowed), connecting with a deadline. Plain functions,
// thread-safe. All descriptors are non-blocking and close on exec.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"

namespace ddp::rt {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();

 private:
  int fd_ = -1;
};

// "Connection refused" for ECONNREFUSED.
std::string ErrnoText(int error);
// "::1" for "[::1]"; other hosts as they are.
std::string BareHost(const std::string& host);
// "host:29500", "[::1]:29500".
std::string HostPort(const std::string& host, int port);

// Listens on an address ("" = all, IPv6 and IPv4 in one socket where the host has both); port 0
// chooses. Error(kConfig) if the port is in use, naming it and `how_to_change`.
Fd ListenTcp(const std::string& address, int port, const std::string& how_to_change);
int BoundPort(const Fd& socket);

// Tries the host until it resolves and accepts, or the deadline is over: Error(kUnavailable) with
// host, port and what happened last. The system's resolver may overrun the deadline by its own
// timeout.
Fd ConnectTcp(const std::string& host, int port, const Deadline& deadline);
// For connections whose other end may answer wrongly at first (a server of an earlier attempt):
// `use` says "" when content, else what was wrong; then it is tried again.
void ConnectTcpUntil(const std::string& host, int port, const Deadline& deadline,
                     const std::function<std::string(Fd)>& use);

// The numeric address of the interface that packets to `host` leave from; "" if there is no route.
std::string LocalAddressTowards(const std::string& host);

// Whole messages on a non-blocking stream socket. Error(kUnavailable) with the deadline's reason.
void SendAll(const Fd& socket, const void* data, std::size_t size, const Deadline& deadline);
void ReceiveAll(const Fd& socket, void* data, std::size_t size, const Deadline& deadline);
// Waits for poll events; false at the deadline.
bool WaitFor(const Fd& socket, short events, const Deadline& deadline);

}  // namespace ddp::rt
