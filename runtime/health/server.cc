#include "runtime/health/server.h"

#include <CivetServer.h>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/log.h"

namespace ddp::rt::health {
namespace {

// Answers GET with what a function returns.
class Handler final : public CivetHandler {
 public:
  explicit Handler(std::function<Answer()> answer) : answer_(std::move(answer)) {}

  bool handleGet(CivetServer* /*server*/, mg_connection* connection) override {
    Answer answer;
    try {
      answer = answer_();
    } catch (const std::exception& e) {
      answer = {.status = 500, .body = fmt::format("{}\n", e.what())};
      Log(Level::kWarning, "can't answer a request: {}", e.what());
    }
    mg_printf(connection,
              "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
              "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
              answer.status, mg_get_response_code_text(connection, answer.status),
              answer.content_type.c_str(), answer.body.size());
    mg_write(connection, answer.body.data(), answer.body.size());
    return true;
  }

 private:
  std::function<Answer()> answer_;
};

constexpr std::chrono::milliseconds kWakeInterval(20);

// Connects to a port of this host and hangs up.
void TouchLoopback(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // A failure costs at most the two seconds.
    (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    close(fd);
  }
}

}  // namespace

struct Server::Impl {
  // Before the server, which uses them until it is closed.
  std::vector<std::unique_ptr<Handler>> handlers;
  std::unique_ptr<CivetServer> server;
};

std::unique_ptr<Server> Server::Start(int port, const Routes& routes) {
  auto impl = std::make_unique<Impl>();
  // "+": IPv4 and IPv6 where the host has both.
  const std::vector<std::string> options = {"listening_ports",
                                            fmt::format("+{}", port),
                                            "num_threads",
                                            "2",
                                            "request_timeout_ms",
                                            "5000",
                                            "enable_directory_listing",
                                            "no"};
  try {
    impl->server = std::make_unique<CivetServer>(options);
  } catch (const CivetException& e) {
    Log(Level::kWarning,
        "progress port {} can't be used ({}): training goes on without /metrics and /progress",
        port, e.what());
    return nullptr;
  }
  for (const auto& [path, answer] : routes) {
    impl->handlers.push_back(std::make_unique<Handler>(answer));
    // "$": this path only, not what begins with it.
    impl->server->addHandler(path + "$", *impl->handlers.back());
  }
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  // civetweb looks whether it shall stop only when a connection comes or two seconds are over.
  std::jthread waker([port = port()](const std::stop_token& closed) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    do {
      TouchLoopback(port);
    } while (!never.wait_for(lock, closed, kWakeInterval, [&] { return closed.stop_requested(); }));
  });
  impl_->server->close();
}

int Server::port() const { return impl_->server->getListeningPorts().at(0); }

}  // namespace ddp::rt::health
