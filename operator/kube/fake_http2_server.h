// Test helper: an HTTP/2 server over TLS on loopback, with a certificate made for the occasion. The
// handler runs when a request is complete, on its connection's thread, and says what becomes of it.
// Destroying the server ends all connections.
#pragma once

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "operator/kube/fake_listener.h"

namespace ddp::kube {

// What a handler may do with one request.
class FakeHttp2Stream {
 public:
  std::string method;
  std::string path;
  std::map<std::string, std::string> headers;
  std::string body;

  void Reply(int status, std::string text, const std::map<std::string, std::string>& more = {});
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

  std::string url() const { return "https://127.0.0.1:" + std::to_string(listener_->port()); }
  const std::string& certificate() const { return certificate_; }
  int connections() const { return listener_->connections(); }
  size_t bytes_sent() const { return bytes_sent_; }  // of bodies
  // Until flow control keeps a body from going on; false if it does not within this time.
  bool WaitUntilHeldBack(std::chrono::milliseconds at_most);

 private:
  friend class FakeHttp2Connection;
  void MakeCertificate();

  const Handler handler_;
  const bool http2_;
  const std::string http1_body_;
  std::string certificate_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::atomic<size_t> bytes_sent_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_back_ = false;
  std::unique_ptr<FakeListener> listener_;  // last: its threads use all the others
};

}  // namespace ddp::kube
