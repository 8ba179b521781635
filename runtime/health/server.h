// Serves /metrics, /progress, /healthz and /readyz of one rank over HTTP, on two threads of its
// own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace ddp::rt::health {

struct Answer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Path to what answers it; called on the server's threads.
using Routes = std::map<std::string, std::function<Answer()>>;

class Server {
 public:
  // Null if the port can't be had, after a warning: a run never fails for that. Port 0 takes a free
  // one.
  static std::unique_ptr<Server> Start(int port, const Routes& routes);
  // Returns when no route runs any more.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp::rt::health
