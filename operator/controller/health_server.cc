// The only file that includes civetweb.
#include "operator/controller/health_server.h"

#include <CivetServer.h>
#include <fmt/format.h>

namespace ddp::controller {
namespace {

struct Answer {
  int status;
  std::string type;
  std::string body;
};

class GetHandler : public CivetHandler {
 public:
  explicit GetHandler(std::function<Answer()> answer) : answer_(std::move(answer)) {}
  bool handleGet(CivetServer* /*server*/, mg_connection* connection) override {
    const Answer answer = answer_();
    const std::string head = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n", answer.status,
        answer.status == 200 ? "OK" : "Service Unavailable", answer.type, answer.body.size());
    mg_write(connection, head.data(), head.size());
    mg_write(connection, answer.body.data(), answer.body.size());
    return true;
  }

 private:
  const std::function<Answer()> answer_;
};

Answer FromCheck(const HealthServer::Check& check) {
  const std::string trouble = check();
  return {trouble.empty() ? 200 : 503, "text/plain", trouble.empty() ? "ok\n" : trouble + "\n"};
}

}  // namespace

struct HealthServer::Impl {
  Impl(int port, const Metrics& metrics, Check healthy, Check ready)
      : metrics_handler([&metrics] {
          return Answer{200, "text/plain; version=0.0.4; charset=utf-8", metrics.Text()};
        }),
        healthy_handler([check = std::move(healthy)] { return FromCheck(check); }),
        ready_handler([check = std::move(ready)] { return FromCheck(check); }),
        server(std::vector<std::string>{"listening_ports", fmt::format("+{}", port), "num_threads",
                                        "2", "request_timeout_ms", "10000"}) {
    server.addHandler("/metrics", metrics_handler);
    server.addHandler("/healthz", healthy_handler);
    server.addHandler("/readyz", ready_handler);
  }
  GetHandler metrics_handler;
  GetHandler healthy_handler;
  GetHandler ready_handler;
  CivetServer server;  // last: ends before its handlers do
};

base::Result<std::unique_ptr<HealthServer>> HealthServer::Start(int port, const Metrics& metrics,
                                                                Check healthy, Check ready) {
  try {
    return std::unique_ptr<HealthServer>(new HealthServer(
        std::make_unique<Impl>(port, metrics, std::move(healthy), std::move(ready))));
  } catch (const std::exception&) {
    return base::Error{base::ErrorCode::kUnavailable,
                       fmt::format("cannot listen on port {} for health and metrics: is it in use? "
                                   "Choose another with --health-port (0: any free one)",
                                   port)};
  }
}

HealthServer::HealthServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HealthServer::~HealthServer() = default;

int HealthServer::port() const {
  const std::vector<int> ports = impl_->server.getListeningPorts();
  return ports.empty() ? 0 : ports.front();
}

}  // namespace ddp::controller
