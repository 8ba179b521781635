// Test helper: an HTTP/2 server over TLS on loopback, with a certificate made for the occasion. The
// handler runs when a request is complete, on its connection's thread, and says what becomes of it.
// Destroying the server ends all connections.
#pragma once

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddp::kube {

// What a handler may do with one request.
class FakeHttp2Stream {
 public:
  std::string method;
  std::string path;
  std::map<std::string, std::string> headers;
  std::string body;

  void Reply(int status, std::string text, std::map<std::string, std::string> more = {});
  // The body as far as the client takes it; then the stream stays open.
  void ReplyWithoutEnd(int status, std::string text);
  void Reset(uint32_t code);
  void GoAway();         // this stream is the last that is answered
  void CutConnection();  // at once
  void StopReading();    // the connection goes silent for good

 private:
  friend class FakeHttp2Connection;
  nghttp2_session* session_ = nullptr;
  int32_t id_ = 0;
  std::string reply_;
  size_t sent_ = 0;
  bool ends_ = true;
  class FakeHttp2Connection* connection_ = nullptr;
};

class FakeHttp2Server {
 public:
  using Handler = std::function<void(FakeHttp2Stream&)>;
  // Without HTTP/2 it answers each request with `http1_body` by HTTP/1.1.
  explicit FakeHttp2Server(Handler handler, bool http2 = true, std::string http1_body = "");
  FakeHttp2Server(const FakeHttp2Server&) = delete;
  FakeHttp2Server& operator=(const FakeHttp2Server&) = delete;
  ~FakeHttp2Server();

  std::string url() const { return "https://127.0.0.1:" + std::to_string(port_); }
  const std::string& certificate() const { return certificate_; }
  int connections() const { return connections_; }
  size_t bytes_sent() const { return bytes_sent_; }  // of bodies

 private:
  friend class FakeHttp2Connection;
  void Accept();
  void MakeCertificate();

  const Handler handler_;
  const bool http2_;
  const std::string http1_body_;
  std::string certificate_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  int listener_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::atomic<size_t> bytes_sent_{0};
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace ddp::kube
