#include "runtime/base/net.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <system_error>
#include <thread>

#include "runtime/base/error.h"

namespace ddp::rt {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

struct Resolved {
  AddressList list{nullptr, &freeaddrinfo};
  std::string failure;
};

Resolved Resolve(const std::string& host, int port, int flags, int socktype = SOCK_STREAM) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = socktype;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string name = BareHost(host);
  const int rc = getaddrinfo(name.empty() ? nullptr : name.c_str(), std::to_string(port).c_str(),
                             &hints, &found);
  Resolved result;
  if (rc != 0) {
    result.failure = fmt::format("the name does not resolve to an IPv4 or IPv6 address: {}",
                                 rc == EAI_SYSTEM ? ErrnoText(errno) : gai_strerror(rc));
  } else {
    result.list.reset(found);
  }
  return result;
}

// One try to connect to one address: an empty text and an open socket, or what went wrong.
std::pair<Fd, std::string> TryAddress(const addrinfo& address, const Deadline& deadline) {
  Fd fd(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return {Fd(), ErrnoText(errno)};
  }
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) {
      return {Fd(), ErrnoText(errno)};
    }
    if (!WaitFor(fd, POLLOUT, deadline)) {
      return {Fd(), "no answer"};
    }
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      return {Fd(), ErrnoText(error)};
    }
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return {std::move(fd), ""};
}

// "IPv6 ::1".
std::string Describe(const addrinfo& address) {
  char text[NI_MAXHOST] = "?";
  getnameinfo(address.ai_addr, address.ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return fmt::format("{} {}", address.ai_family == AF_INET6 ? "IPv6" : "IPv4", text);
}

std::pair<Fd, std::string> TryHost(const std::string& host, int port, const Deadline& deadline) {
  const Resolved resolved = Resolve(host, port, 0);
  std::string last = resolved.failure;
  for (const addrinfo* a = resolved.list.get(); a != nullptr; a = a->ai_next) {
    auto [fd, failure] = TryAddress(*a, deadline);
    if (fd) {
      return {std::move(fd), ""};
    }
    last = fmt::format("{}: {}", Describe(*a), failure);
  }
  return {Fd(), last};
}

// Listens on one resolved address; the errno, or 0.
int TryListen(const addrinfo& address, Fd& out) {
  Fd fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return errno;
  }
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.ai_family == AF_INET6) {
    const int off = 0;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  constexpr int kBacklog = 2048;
  if (bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 || listen(fd.get(), kBacklog) != 0) {
    return errno;
  }
  out = std::move(fd);
  return 0;
}

}  // namespace

void Fd::Reset() {
  if (fd_ >= 0) {
    close(fd_);
    fd_ = -1;
  }
}

std::string ErrnoText(int error) { return std::generic_category().message(error); }

std::string BareHost(const std::string& host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

std::string HostPort(const std::string& host, int port) {
  const std::string name = BareHost(host);
  return name.find(':') == std::string::npos ? fmt::format("{}:{}", name, port)
                                             : fmt::format("[{}]:{}", name, port);
}

Fd ListenTcp(const std::string& address, int port, const std::string& how_to_change) {
  // "::" first: with V6ONLY off it serves IPv4 too. A host without IPv6 gets "0.0.0.0".
  const auto tries = address.empty() ? std::vector<std::string>{"::", "0.0.0.0"}
                                     : std::vector<std::string>{address};
  int error = EADDRNOTAVAIL;
  for (const std::string& each : tries) {
    const Resolved resolved = Resolve(each, port, AI_PASSIVE);
    for (const addrinfo* a = resolved.list.get(); a != nullptr; a = a->ai_next) {
      Fd fd;
      error = TryListen(*a, fd);
      if (error == 0) {
        return fd;
      }
      if (error == EADDRINUSE) {
        throw Error(ExitCode::kConfig,
                    fmt::format("port {} is in use on this host by another program: {}", port,
                                how_to_change));
      }
    }
  }
  throw Error(ExitCode::kConfig,
              fmt::format("cannot listen on {}: {}", HostPort(address, port), ErrnoText(error)));
}

int BoundPort(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  DDP_RT_CHECK(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0,
               ErrnoText(errno));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

void ConnectTcpUntil(const std::string& host, int port, const Deadline& deadline,
                     const std::function<std::string(Fd)>& use) {
  // Doubling pauses: quick while rank 0 is just starting, no flood for a thousand ranks.
  std::chrono::milliseconds pause(20);
  constexpr std::chrono::milliseconds kLongestPause(1000);
  for (;;) {
    auto [fd, last] = TryHost(host, port, deadline);
    if (fd) {
      last = use(std::move(fd));
      if (last.empty()) {
        return;
      }
    }
    if (deadline.Expired()) {
      throw Error(
          ExitCode::kUnavailable,
          fmt::format("cannot reach {} ({}): gave up after {}; last: {}", HostPort(host, port),
                      deadline.reason(), deadline.TimeoutText(), last));
    }
    std::this_thread::sleep_for(std::min(pause, deadline.Left()));
    pause = std::min(pause * 2, kLongestPause);
  }
}

Fd ConnectTcp(const std::string& host, int port, const Deadline& deadline) {
  Fd connected;
  ConnectTcpUntil(host, port, deadline, [&](Fd fd) {
    connected = std::move(fd);
    return std::string();
  });
  return connected;
}

std::string LocalAddressTowards(const std::string& host) {
  constexpr int kAnyPort = 9;  // a UDP connect sends nothing
  const Resolved resolved = Resolve(host, kAnyPort, 0, SOCK_DGRAM);
  for (const addrinfo* a = resolved.list.get(); a != nullptr; a = a->ai_next) {
    const Fd fd(socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (!fd || connect(fd.get(), a->ai_addr, a->ai_addrlen) != 0 ||
        getsockname(fd.get(), generic, &size) != 0) {
      continue;
    }
    char text[NI_MAXHOST];
    if (getnameinfo(generic, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0) {
      return text;
    }
  }
  return "";
}

bool WaitFor(const Fd& socket, short events, const Deadline& deadline) {
  for (;;) {
    pollfd entry{socket.get(), events, 0};
    const auto left = std::min<long long>(deadline.Left().count(), std::numeric_limits<int>::max());
    const int rc = poll(&entry, 1, static_cast<int>(left));
    if (rc > 0) {
      return true;
    }
    if (rc == 0 && deadline.Expired()) {
      return false;
    }
    DDP_RT_CHECK(rc == 0 || errno == EINTR, ErrnoText(errno));
  }
}

namespace {

// Runs `step` (a send or receive of what is left) until `size` bytes are done.
template <typename Step>
void Transfer(const Fd& socket, std::size_t size, short events, const Deadline& deadline,
              const Step& step) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = step(done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n == 0) {
      throw Error(ExitCode::kUnavailable,
                  fmt::format("the other side closed the connection ({})", deadline.reason()));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!WaitFor(socket, events, deadline)) {
        throw Error(ExitCode::kUnavailable, fmt::format("gave up after {} waiting for {}",
                                                        deadline.TimeoutText(), deadline.reason()));
      }
    } else if (errno != EINTR) {
      throw Error(ExitCode::kUnavailable,
                  fmt::format("{} ({})", ErrnoText(errno), deadline.reason()));
    }
  }
}

}  // namespace

void SendAll(const Fd& socket, const void* data, std::size_t size, const Deadline& deadline) {
  Transfer(socket, size, POLLOUT, deadline, [&](std::size_t done) {
    return send(socket.get(), static_cast<const char*>(data) + done, size - done, MSG_NOSIGNAL);
  });
}

void ReceiveAll(const Fd& socket, void* data, std::size_t size, const Deadline& deadline) {
  Transfer(socket, size, POLLIN, deadline, [&](std::size_t done) {
    return recv(socket.get(), static_cast<char*>(data) + done, size - done, 0);
  });
}

}  // namespace ddp::rt
