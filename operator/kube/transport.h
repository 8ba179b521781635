// HTTP to one server behind a small interface: the only part of the operator that knows an HTTP
// library, so that the library can be replaced and tests can script answers. Thread-safe: any
// number of threads may send at once, each blocks until its own answer is complete. Owned by
// main(), destroyed after every thread that uses it has ended.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/base/result.h"

namespace ddp::kube {

struct HttpRequest {
  std::string method;
  std::string target;  // path and query, already percent-encoded: "/api/v1/pods?limit=500"
  std::string body;
  std::string content_type;
  std::string bearer;  // a token, empty when certificates authenticate
  std::string accept = "application/json";
  std::chrono::milliseconds deadline{30'000};  // for the whole exchange; not used by Stream
};

struct HttpResponse {
  int status = 0;
  std::string body;
  std::optional<std::chrono::seconds> retry_after;
};

class HttpTransport {
 public:
  HttpTransport() = default;
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;
  virtual ~HttpTransport() = default;

  // Any answer with a status is a value. Errors: kUnavailable (no connection, or it broke),
  // kDeadline, kCancelled (stop), kInternal (an answer larger than the limit).
  // A request on a reused connection that the server closed before answering may be sent twice:
  // callers must stay right under that (deterministic names, preconditions).
  virtual base::Result<HttpResponse> Send(const HttpRequest& request, std::stop_token stop) = 0;

  // As Send for `count` requests, the i-th made by `make` when its turn comes, at most `at_once` of
  // them under way. Answers come on the calling thread, in the order in which they arrive. When
  // on_answer returns false no more are begun; those under way are still waited for and told of.
  using Make = std::function<HttpRequest(size_t)>;
  using OnAnswer = std::function<bool(size_t, base::Result<HttpResponse>)>;
  virtual void SendMany(size_t count, const Make& make, size_t at_once, std::stop_token stop,
                        const OnAnswer& on_answer);  // here: one after another

  // As Send, but a 2xx body is handed over piece by piece, on the calling thread, as it arrives;
  // returns when the server ends it cleanly. on_bytes returns false to end the stream early. The
  // connection may stay silent only for so long (kDeadline).
  virtual base::Result<HttpResponse> Stream(
      const HttpRequest& request, std::stop_token stop,
      const std::function<bool(std::string_view)>& on_bytes) = 0;
};

// PEM text, or the file that holds it. Files are read anew for each connection, so that rotated
// certificates apply without a restart.
struct Pem {
  std::string text;
  std::string file;
  bool empty() const { return text.empty() && file.empty(); }
};

struct TransportOptions {
  std::string server;  // "https://host:port", with an optional path prefix
  Pem ca;              // the only authority that is trusted; required for https
  Pem client_certificate;
  Pem client_key;
  std::string user_agent = "ddp-operator";
  std::chrono::milliseconds idle_timeout{30'000};  // between two reads or writes of a request
  // A watch with bookmarks hears from the server about once a minute. Silence this long means that
  // the connection is dead (a peer that vanished sends no FIN); watching again is cheap.
  std::chrono::milliseconds stream_idle_timeout{150'000};
  // HTTP/2: a connection that has been silent so long is asked whether it lives, and has the second
  // time to answer (client-go: apimachinery net/http.go).
  std::chrono::milliseconds ping_after{30'000};
  std::chrono::milliseconds ping_timeout{15'000};
  size_t max_body_bytes = size_t{256} << 20U;
};

// Speaks HTTP/2 with an https:// server that offers it, else HTTP/1.1. Does not connect yet.
// kInvalid for a server address that cannot work, naming it.
base::Result<std::unique_ptr<HttpTransport>> MakeHttpTransport(TransportOptions options);

}  // namespace ddp::kube
