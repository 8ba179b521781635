// One TLS connection over TCP, for a protocol that drives it: opening blocks, everything after that
// does not. Trusts the given authority alone and checks the server's name or address against its
// certificate. Not thread-safe: its owner holds a lock.
#pragma once

#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/kube/transport.h"

namespace ddp::kube {

// "https://host:port/prefix", "https://[::1]:6443" taken apart.
struct ServerAddress {
  std::string host;       // without brackets
  std::string port;       // "443" unless given
  std::string authority;  // as requests name it: "host:port"
  std::string prefix;     // of every path; no '/' at its end
};
ServerAddress ParseServer(const std::string& server);

class TlsConnection {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // kUnavailable (also when a file can't be used: it may be in the middle of being exchanged),
  // kDeadline or kCancelled.
  static base::Result<std::unique_ptr<TlsConnection>> Open(const TransportOptions& options,
                                                           Time deadline,
                                                           const std::stop_token& stop);
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;
  ~TlsConnection();

  int socket() const { return socket_; }
  // Whether the server chose HTTP/2 when both were offered.
  bool speaks_http2() const;

  // What has arrived, up to `size` bytes; 0: nothing now. An error: the connection has ended.
  base::Result<size_t> Read(char* into, size_t size);
  // Takes all of it, and sends what the socket accepts; the rest goes with Flush, once the socket
  // is writable.
  base::Result<base::Done> Write(std::string_view bytes);
  base::Result<base::Done> Flush();
  bool has_unsent() const { return !unsent_.empty(); }

 private:
  class Opening;
  TlsConnection() = default;
  base::Result<size_t> Receive();

  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  int socket_ = -1;
  std::unique_ptr<SSL_CTX, FreeContext> context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;  // over memory: sockets are read and written here
  std::string unsent_;                 // encrypted
};

}  // namespace ddp::kube
