#include "tests/integration/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "operator/base/result.h"

namespace ddp::integration {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Moves what is there; false: an end was reached.
bool Move(int from, int to) {
  char bytes[16384];
  const ssize_t got = recv(from, bytes, sizeof bytes, 0);
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t n = send(to, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
    if (n <= 0) {
      return false;
    }
    sent += n;
  }
  return got > 0;
}

}  // namespace

TcpProxy::TcpProxy(int target_port)
    : target_port_(target_port), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = Loopback(0);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  DDP_CHECK(bind(listener_, generic, size) == 0 && listen(listener_, 64) == 0 &&
                getsockname(listener_, generic, &size) == 0,
            "no loopback socket");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

TcpProxy::~TcpProxy() {
  stopping_ = true;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  CutAll();
  for (std::thread& pump : pumps_) {
    pump.join();
  }
  close(listener_);
}

void TcpProxy::CutAll() {
  std::lock_guard lock(mutex_);
  for (const Pair& pair : pairs_) {
    shutdown(pair.client, SHUT_RDWR);
    shutdown(pair.server, SHUT_RDWR);
    ++cut_;
  }
}

void TcpProxy::Accept() {
  for (;;) {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0 || stopping_) {
      return;
    }
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in target = Loopback(target_port_);
    if (!accepting_ || connect(server, reinterpret_cast<sockaddr*>(&target), sizeof target) != 0) {
      close(client);
      close(server);
      continue;
    }
    std::lock_guard lock(mutex_);
    const auto it = pairs_.insert(pairs_.end(), Pair{client, server});
    pumps_.emplace_back([this, it] {
      Pump(*it);
      std::lock_guard closing(mutex_);
      close(it->client);
      close(it->server);
      pairs_.erase(it);
    });
  }
}

void TcpProxy::Pump(Pair pair) {
  pollfd polled[] = {{pair.client, POLLIN, 0}, {pair.server, POLLIN, 0}};
  for (;;) {
    if (poll(polled, 2, -1) < 0) {
      return;
    }
    if ((polled[0].revents != 0 && !Move(pair.client, pair.server)) ||
        (polled[1].revents != 0 && !Move(pair.server, pair.client))) {
      shutdown(pair.client, SHUT_RDWR);
      shutdown(pair.server, SHUT_RDWR);
      return;
    }
  }
}

}  // namespace ddp::integration
