#include "runtime/comm/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace ddp::rt::comm {
namespace {

enum class Channel : std::uint32_t { kControl = 0, kData = 1 };
constexpr std::array<char, 8> kMagic = {'d', 'd', 'p', 'm', 'e', 's', 'h', '1'};
constexpr std::uint32_t kWelcome = 0x900d900d;
constexpr std::size_t kTokenSize = 32;

struct Hello {
  std::array<char, 8> magic = kMagic;
  std::array<char, kTokenSize> token{};
  std::array<char, 64> job_uid{};
  std::int32_t attempt = 0;
  std::int32_t world_size = 0;
  std::int32_t rank = 0;
  Channel channel = Channel::kControl;
};

std::string RandomToken() {
  std::random_device random;
  std::string token;
  while (token.size() < kTokenSize) {
    token += fmt::format("{:08x}", random());
  }
  return token;
}

Hello MakeHello(const MeshOptions& options, const std::string& token) {
  Hello hello;
  std::copy_n(token.data(), std::min(token.size(), kTokenSize), hello.token.data());
  std::copy_n(options.job_uid.data(), std::min(options.job_uid.size(), hello.job_uid.size()),
              hello.job_uid.data());
  hello.attempt = options.attempt;
  hello.world_size = options.world_size;
  hello.rank = options.rank;
  return hello;
}

// "" if `theirs` belongs here.
std::string Misfit(const Hello& theirs, const Hello& ours) {
  if (theirs.magic != ours.magic || theirs.token != ours.token) {
    return "it is not of this group";
  }
  if (theirs.job_uid != ours.job_uid || theirs.attempt != ours.attempt ||
      theirs.world_size != ours.world_size) {
    return fmt::format("it is of another job, attempt ({}, here {}) or world", theirs.attempt,
                       ours.attempt);
  }
  if (theirs.rank <= ours.rank || theirs.rank >= ours.world_size) {
    return fmt::format("rank {} has nothing to connect here", theirs.rank);
  }
  return "";
}

std::vector<Fd>& ChannelOf(Mesh& mesh, Channel channel) {
  return channel == Channel::kControl ? mesh.control : mesh.data;
}

// The second half of connecting: welcomes the higher ranks and waits for the welcome of the lower
// ones, whichever comes first.
class Welcome {
 public:
  Welcome(const Fd& listener, const Hello& ours, Mesh& mesh, const Deadline& deadline)
      : listener_(listener), ours_(ours), mesh_(mesh), deadline_(deadline) {
    for (const std::vector<Fd>* channel : {&mesh.control, &mesh.data}) {
      for (std::size_t peer = 0; peer < channel->size(); ++peer) {
        if ((*channel)[peer]) {
          unanswered_.push_back({&(*channel)[peer], static_cast<int>(peer)});
        }
      }
      expected_ += channel->empty() ? 0 : static_cast<std::size_t>(ours.world_size - ours.rank - 1);
    }
  }

  void Run() {
    while (expected_ > 0 || !unanswered_.empty()) {
      std::vector<pollfd> entries = {{expected_ > 0 ? listener_.get() : -1, POLLIN, 0}};
      for (const auto& [fd, peer] : unanswered_) {
        entries.push_back({fd->get(), POLLIN, 0});
      }
      constexpr long long kLongest = std::numeric_limits<int>::max();
      const int rc =
          poll(entries.data(), entries.size(),
               static_cast<int>(std::min<long long>(deadline_.Left().count(), kLongest)));
      DDP_RT_CHECK(rc >= 0 || errno == EINTR, ErrnoText(errno));
      if (rc == 0 && deadline_.Expired()) {
        FailMissing();
      }
      for (std::size_t i = entries.size() - 1; rc > 0 && i > 0; --i) {
        if (entries[i].revents != 0) {
          ReadAnswer(i - 1);
        }
      }
      if (rc > 0 && entries[0].revents != 0) {
        Accept();
      }
    }
  }

 private:
  struct Unanswered {
    const Fd* fd;
    int peer;
  };

  void ReadAnswer(std::size_t index) {
    const auto [fd, peer] = unanswered_[index];
    std::uint32_t answer = 0;
    try {
      ReceiveAll(*fd, &answer, sizeof(answer),
                 deadline_.For(fmt::format("rank {}'s welcome", peer)));
    } catch (const Error& e) {
      throw Error(ExitCode::kUnavailable,
                  fmt::format("rank {} does not let this rank in: {}", peer, e.what()));
    }
    unanswered_.erase(unanswered_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void Accept() {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      return;  // it went away again
    }
    Hello theirs;
    std::string misfit;
    try {
      // A stranger that says nothing must not hold up the others for long.
      constexpr std::chrono::seconds kSpeakUp(3);
      ReceiveAll(fd, &theirs, sizeof(theirs), Deadline::In(kSpeakUp, "a peer's hello"));
      misfit = Misfit(theirs, ours_);
    } catch (const Error& e) {
      misfit = e.what();
    }
    if (!misfit.empty()) {
      Log(Level::kWarning, "refused a connection: {}", misfit);
      return;
    }
    Fd& place = ChannelOf(mesh_, theirs.channel)[static_cast<std::size_t>(theirs.rank)];
    if (place) {
      return;
    }
    try {
      SendAll(fd, &kWelcome, sizeof(kWelcome), deadline_);
    } catch (const Error& e) {
      throw Error(ExitCode::kUnavailable,
                  fmt::format("rank {} went away before all ranks were connected: {}", theirs.rank,
                              e.what()));
    }
    place = std::move(fd);
    --expected_;
  }

  [[noreturn]] void FailMissing() {
    std::vector<int> missing;
    for (const auto& [fd, peer] : unanswered_) {
      if (missing.empty() || missing.back() != peer) {
        missing.push_back(peer);
      }
    }
    for (int r = ours_.rank + 1; r < ours_.world_size; ++r) {
      const auto index = static_cast<std::size_t>(r);
      if (!mesh_.control[index] || (!mesh_.data.empty() && !mesh_.data[index])) {
        missing.push_back(r);
      }
    }
    throw Error(ExitCode::kUnavailable,
                fmt::format("gave up after {} waiting for {}: rank(s) {} have not connected",
                            deadline_.TimeoutText(), deadline_.reason(), fmt::join(missing, ", ")));
  }

  const Fd& listener_;
  const Hello& ours_;
  Mesh& mesh_;
  const Deadline& deadline_;
  std::vector<Unanswered> unanswered_;  // connections to lower ranks
  std::size_t expected_ = 0;            // connections from higher ranks still to come
};

template <typename Connect>
Mesh ConnectMesh(store::Store& store, const MeshOptions& options, const Fd& listener,
                 const std::string& address, bool with_data, const Connect& connect) {
  const Deadline& deadline = options.deadline;
  const auto world = static_cast<std::size_t>(options.world_size);
  if (options.rank == 0) {
    store.Set(options.key + "/token", RandomToken());
  }
  const std::string token = store.Get(options.key + "/token", deadline.For("rank 0's token"));
  const auto addresses = store::Exchange(store, options.key + "/address", options.rank,
                                         options.world_size, address, deadline);
  Hello hello = MakeHello(options, token);
  Mesh mesh;
  mesh.control.resize(world);
  mesh.data.resize(with_data ? world : 0);
  const std::vector<Channel> channels =
      with_data ? std::vector{Channel::kControl, Channel::kData} : std::vector{Channel::kControl};
  // Each connects to all lower ranks and speaks, before it accepts anybody. The listen backlog
  // holds what comes early, so nobody waits in a circle.
  for (int peer = 0; peer < options.rank; ++peer) {
    for (const Channel channel : channels) {
      hello.channel = channel;
      Fd fd = connect(addresses[static_cast<std::size_t>(peer)],
                      deadline.For(fmt::format("rank {}", peer)));
      SendAll(fd, &hello, sizeof(hello), deadline);
      ChannelOf(mesh, channel)[static_cast<std::size_t>(peer)] = std::move(fd);
    }
  }
  Welcome(listener, hello, mesh, deadline).Run();
  return mesh;
}

// A host that vanishes without a word: 4 + 3 * 2 s until the kernel notices.
void KeepAlive(const Fd& fd) {
  constexpr int kOn = 1;
  constexpr int kIdleSeconds = 4;
  constexpr int kIntervalSeconds = 2;
  constexpr int kProbes = 3;
  setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof(kOn));
  setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof(kIdleSeconds));
  setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalSeconds, sizeof(kIntervalSeconds));
  setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
}

// The name may be known here a little later than on other hosts.
std::string AwaitLocalAddress(const std::string& master, const Deadline& deadline) {
  for (;;) {
    std::string address = LocalAddressTowards(master);
    if (!address.empty() || deadline.Expired()) {
      return address;
    }
    constexpr Deadline::Milliseconds kPause(200);
    std::this_thread::sleep_for(std::min(kPause, deadline.Left()));
  }
}

std::pair<sockaddr_un, socklen_t> AbstractAddress(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy_n(name.data(), std::min(name.size(), sizeof(address.sun_path) - 1),
              address.sun_path + 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

}  // namespace

Mesh ConnectTcpMesh(store::Store& store, const MeshOptions& options) {
  const std::string master = options.master_addr.empty() ? "127.0.0.1" : options.master_addr;
  std::string host = BareHost(master);
  if (options.rank != 0) {
    host = AwaitLocalAddress(master, options.deadline);
    if (host.empty()) {
      throw Error(
          ExitCode::kUnavailable,
          fmt::format("no network interface of this host leads to rank 0 at '{}' (or the name "
                      "does not resolve): gave up after {}",
                      master, options.deadline.TimeoutText()));
    }
  }
  const Fd listener = ListenTcp(options.rank == 0 ? "" : host, 0, "");
  const std::string address = fmt::format("{} {}", BoundPort(listener), host);
  Mesh mesh = ConnectMesh(
      store, options, listener, address, true, [](const std::string& to, const Deadline& deadline) {
        const auto space = to.find(' ');
        return ConnectTcp(to.substr(space + 1), std::stoi(to.substr(0, space)), deadline);
      });
  for (const std::vector<Fd>* channel : {&mesh.control, &mesh.data}) {
    for (const Fd& fd : *channel) {
      if (fd) {
        constexpr int kOn = 1;
        setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
        KeepAlive(fd);
      }
    }
  }
  return mesh;
}

Mesh ConnectUnixMesh(store::Store& store, const MeshOptions& options) {
  const std::string name = "ddp-" + RandomToken();
  const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto [address, size] = AbstractAddress(name);
  if (!listener || bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), options.world_size * 2) != 0) {
    throw Error(ExitCode::kUnavailable,
                fmt::format("cannot listen on a Unix socket: {}", ErrnoText(errno)));
  }
  return ConnectMesh(
      store, options, listener, name, false, [](const std::string& to, const Deadline& deadline) {
        Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        const auto [peer, peer_size] = AbstractAddress(to);
        if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&peer), peer_size) != 0) {
          throw Error(ExitCode::kUnavailable,
                      fmt::format("cannot connect to {} by a Unix socket: {}", deadline.reason(),
                                  ErrnoText(errno)));
        }
        return fd;
      });
}

}  // namespace ddp::rt::comm
