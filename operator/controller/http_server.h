// Answers GET on a port of its own, for probes and scrapes: over TLS if wanted, one answer a
// connection, on one thread. Whoever connects gets ten seconds; when too many are connected, the
// one that has been for the longest is dropped, so that nobody can hold up a kubelet's probe.
// Certificates are read anew when their files change. Owned by main(); stops when destroyed. The
// handler is called on the server's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "operator/base/result.h"

namespace ddp::controller {

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain";
  std::string body;
  bool asks_for_token = false;  // adds WWW-Authenticate: Bearer
  // For a browser: nothing of this page is kept, framed, guessed at or loaded from elsewhere.
  bool is_page = false;
};

struct HttpQuestion {
  std::string_view path;           // without its query
  std::string_view authorization;  // the header, "" without
  std::string_view host;           // the header, "" without
};

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpQuestion&)>;

  struct Tls {
    std::string certificate_file;  // PEM, with the chain
    std::string key_file;          // PEM
  };
  struct Options {
    int port = 0;  // 0: a free one
    std::optional<Tls> tls;
    std::string flag = "--health-port";  // what chooses the port, for the error
    bool loopback_only = false;
  };

  // Listens on every address, IPv6 too where the machine has it, or on 127.0.0.1 alone.
  // kUnavailable names the port that is taken, kInvalid the certificate that can't be used.
  static base::Result<std::unique_ptr<HttpServer>> Start(const Options& options, Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();
  int port() const;
  // When the certificate in use runs out; nothing without TLS.
  std::optional<std::chrono::system_clock::time_point> certificate_expiry() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ddp::controller
