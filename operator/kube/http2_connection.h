// Many exchanges at once over one TLS connection, by HTTP/2 (nghttp2 does frames, header
// compression and flow control). A thread of its own reads; whoever sends, writes. The caller of
// each exchange waits for its news on its own thread, and takes a streamed body piece by piece: a
// server that sends more than is taken is held back by flow control, so memory stays bounded.
//
// Thread-safe. Shared by those who wait on it; the last one out ends the thread. Once it takes no
// more requests (the server said so, or it broke) it is replaced, while exchanges under way finish.
#pragma once

#include <nghttp2/nghttp2.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "operator/kube/tls_connection.h"

namespace ddp::kube {

// Wakes the thread that waits for one exchange, or for several.
struct Waiter {
  std::condition_variable_any news;
};

// One request and what has come back. All but the first three fields are the connection's, under
// its lock.
struct Exchange {
  const HttpRequest* request = nullptr;
  bool streamed = false;  // a 2xx body goes to `piece`
  Waiter* waiter = nullptr;

  int32_t stream = -1;
  size_t body_sent = 0;
  HttpResponse response;
  std::string piece;
  bool finished = false;
  std::optional<base::Error> failure;
  bool unprocessed = false;  // the server has surely done nothing: safe to send again
};

class Http2Connection {
 public:
  Http2Connection(std::unique_ptr<TlsConnection> tls, const TransportOptions& options);
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;
  ~Http2Connection();

  // Held while looking at an exchange or calling what follows.
  std::unique_lock<std::mutex> Lock() const { return std::unique_lock(mutex_); }
  bool usable() const { return !closing_; }
  // Queues the request; the exchange must not move or go before it is finished or cancelled.
  void Start(Exchange& exchange);
  // Sends what is queued.
  void Flush();
  // Ends an exchange that is not finished: the connection knows it no more.
  void Cancel(Exchange& exchange);
  // `piece` was taken away: the server may send as much again.
  void Taken(const Exchange& exchange, size_t bytes);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct FreeSession {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  void Run(const std::stop_token& stop);
  void ReadAll();
  void KeepAlive(Time now);
  void Break(const base::Error& error);
  void Finish(Exchange& exchange, std::optional<base::Error> failure);
  Exchange* Find(int32_t stream);
  std::vector<nghttp2_nv> Head(const HttpRequest& request);

  // nghttp2's callbacks; `self` is this object.
  static nghttp2_session_callbacks* Callbacks();
  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t flags,
                      void* self);
  static int OnData(nghttp2_session* session, uint8_t flags, int32_t stream, const uint8_t* data,
                    size_t size, void* self);
  static int OnStreamClose(nghttp2_session* session, int32_t stream, uint32_t code, void* self);
  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* self);
  static ssize_t ReadRequestBody(nghttp2_session* session, int32_t stream, uint8_t* into,
                                 size_t size, uint32_t* flags, nghttp2_data_source* source,
                                 void* self);

  const std::string authority_;
  const std::string prefix_;
  const std::string user_agent_;
  const size_t max_body_bytes_;
  const std::chrono::milliseconds ping_after_;
  const std::chrono::milliseconds ping_timeout_;
  const int wake_;  // an eventfd: there is something to send, or to stop
  mutable std::mutex mutex_;
  std::unique_ptr<TlsConnection> tls_;
  std::unique_ptr<nghttp2_session, FreeSession> session_;
  std::map<int32_t, Exchange*> exchanges_;
  std::string path_;    // of the request whose head is being made
  std::string bearer_;  // the same
  std::string length_;  // the same
  bool closing_ = false;
  bool broken_ = false;
  Time heard_{};
  std::optional<Time> ping_sent_;
  std::jthread thread_;
};

}  // namespace ddp::kube
