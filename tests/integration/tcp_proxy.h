// Forwards a loopback port to another, and can cut every connection: the network between an
// operator and its API server.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace ddp::integration {

class TcpProxy {
 public:
  explicit TcpProxy(int target_port);
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;
  ~TcpProxy();

  int port() const { return port_; }
  // Ends all connections, in mid-stream; new ones are accepted again.
  void CutAll();
  // While off, new connections are closed at once.
  void SetAccepting(bool on) { accepting_ = on; }
  int cut() const { return cut_; }

 private:
  struct Pair {
    int client;
    int server;
  };
  void Accept();
  static void Pump(Pair pair);

  const int target_port_;
  int listener_;
  int port_ = 0;
  std::atomic<bool> accepting_{true};
  std::atomic<bool> stopping_{false};
  std::atomic<int> cut_{0};
  std::mutex mutex_;
  std::list<Pair> pairs_;
  std::vector<std::thread> pumps_;
  std::thread acceptor_;
};

}  // namespace ddp::integration
