// Test helper: a loopback socket whose connections are each served on a thread of their own, by the
// function it was made with. Destroying it shuts all of them down and waits for the threads: make
// it last, as they use whatever the function does.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "operator/base/result.h"

namespace ddp::kube {

class FakeListener {
 public:
  explicit FakeListener(std::function<void(int socket)> serve)
      : serve_(std::move(serve)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    DDP_CHECK(bind(listener_, generic, size) == 0 && listen(listener_, 16) == 0 &&
                  getsockname(listener_, generic, &size) == 0,
              "no loopback socket");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  FakeListener(const FakeListener&) = delete;
  FakeListener& operator=(const FakeListener&) = delete;
  ~FakeListener() {
    stopping_ = true;
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      std::lock_guard lock(mutex_);
      for (const int open : sockets_) {
        shutdown(open, SHUT_RDWR);
      }
    }
    for (std::thread& thread : threads_) {
      thread.join();
    }
    close(listener_);
  }

  int port() const { return port_; }
  int connections() const { return connections_; }  // so far

 private:
  void Accept() {
    for (;;) {
      const int accepted = accept(listener_, nullptr, nullptr);
      if (accepted < 0) {
        return;
      }
      std::lock_guard lock(mutex_);
      if (stopping_) {
        close(accepted);
        return;
      }
      ++connections_;
      sockets_.push_back(accepted);
      threads_.emplace_back([this, accepted] {
        serve_(accepted);
        std::lock_guard closing(mutex_);
        std::erase(sockets_, accepted);
        close(accepted);
      });
    }
  }

  const std::function<void(int socket)> serve_;
  const int listener_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace ddp::kube
