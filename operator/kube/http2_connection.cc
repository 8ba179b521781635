#include "operator/kube/http2_connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

namespace ddp::kube {
namespace {

using base::Error;
using base::ErrorCode;
using std::chrono::seconds;

// What a server may send ahead on one stream, and on all of them.
constexpr int32_t kStreamWindow = 1 << 20;
constexpr int32_t kConnectionWindow = 16 << 20;
constexpr size_t kTlsRecord = 16384;

nghttp2_nv Field(std::string_view name, std::string_view value) {
  // nghttp2 copies both, and never writes to them.
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

std::optional<int> Number(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

Http2Connection* Self(void* self) { return static_cast<Http2Connection*>(self); }

}  // namespace

nghttp2_session_callbacks* Http2Connection::Callbacks() {
  static nghttp2_session_callbacks* const callbacks = [] {
    nghttp2_session_callbacks* made = nullptr;
    nghttp2_session_callbacks_new(&made);
    nghttp2_session_callbacks_set_on_header_callback(made, OnHeader);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, OnData);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, OnStreamClose);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, OnFrame);
    return made;
  }();
  return callbacks;
}

Http2Connection::Http2Connection(std::unique_ptr<TlsConnection> tls,
                                 const TransportOptions& options)
    : authority_(ParseServer(options.server).authority),
      prefix_(ParseServer(options.server).prefix),
      user_agent_(options.user_agent),
      max_body_bytes_(options.max_body_bytes),
      ping_after_(options.ping_after),
      ping_timeout_(options.ping_timeout),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      tls_(std::move(tls)),
      heard_(std::chrono::steady_clock::now()) {
  nghttp2_option* option = nullptr;
  nghttp2_option_new(&option);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_session* session = nullptr;
  nghttp2_session_client_new2(&session, Callbacks(), this, option);
  nghttp2_option_del(option);
  session_.reset(session);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, static_cast<uint32_t>(kStreamWindow)}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

Http2Connection::~Http2Connection() {
  thread_.request_stop();
  (void)eventfd_write(wake_, 1);
  thread_.join();
  close(wake_);
}

// In the order in which HTTP/2 wants it. The strings must live until the request is submitted.
std::vector<nghttp2_nv> Http2Connection::Head(const HttpRequest& request) {
  path_ = prefix_ + request.target;
  std::vector<nghttp2_nv> head = {
      Field(":method", request.method), Field(":scheme", "https"),
      Field(":authority", authority_),  Field(":path", path_),
      Field("user-agent", user_agent_), Field("accept", request.accept)};
  if (!request.bearer.empty()) {
    bearer_ = "Bearer " + request.bearer;
    head.push_back(Field("authorization", bearer_));
  }
  if (!request.content_type.empty()) {
    length_ = std::to_string(request.body.size());
    head.push_back(Field("content-type", request.content_type));
    head.push_back(Field("content-length", length_));
  }
  return head;
}

void Http2Connection::Start(Exchange& exchange) {
  if (closing_) {  // since its caller looked
    exchange.unprocessed = true;
    Finish(exchange, Error{ErrorCode::kUnavailable, "the connection takes no more requests"});
    return;
  }
  const std::vector<nghttp2_nv> head = Head(*exchange.request);
  nghttp2_data_provider body{};
  body.source.ptr = &exchange;
  body.read_callback = ReadRequestBody;
  const bool has_body = !exchange.request->content_type.empty();
  const int32_t stream = nghttp2_submit_request(session_.get(), nullptr, head.data(), head.size(),
                                                has_body ? &body : nullptr, nullptr);
  if (stream < 0) {  // stream numbers are used up, or memory is
    closing_ = true;
    exchange.unprocessed = true;
    Finish(exchange, Error{ErrorCode::kUnavailable, nghttp2_strerror(stream)});
    return;
  }
  exchange.stream = stream;
  exchanges_[stream] = &exchange;
}

void Http2Connection::Flush() {
  std::string frames;  // several to a TLS record
  ssize_t size = 0;
  do {
    const uint8_t* bytes = nullptr;
    size = broken_ ? 0 : nghttp2_session_mem_send(session_.get(), &bytes);
    if (size < 0) {
      Break({ErrorCode::kUnavailable, nghttp2_strerror(static_cast<int>(size))});
      return;
    }
    frames.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    if (frames.size() >= kTlsRecord || (size == 0 && !frames.empty())) {
      if (auto written = tls_->Write(frames); !written) {
        Break(written.error());
        return;
      }
      frames.clear();
    }
  } while (size > 0);
  if (tls_->has_unsent()) {
    (void)eventfd_write(wake_, 1);  // the thread goes on when the socket is writable
  }
}

void Http2Connection::Cancel(Exchange& exchange) {
  if (exchange.finished || exchange.stream < 0) {
    return;
  }
  exchanges_.erase(exchange.stream);
  exchange.finished = true;
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, exchange.stream, NGHTTP2_CANCEL);
  Flush();
}

void Http2Connection::Taken(const Exchange& exchange, size_t bytes) {
  if (!exchange.finished) {
    nghttp2_session_consume_stream(session_.get(), exchange.stream, bytes);
    Flush();
  }
}

Exchange* Http2Connection::Find(int32_t stream) {
  const auto it = exchanges_.find(stream);
  return it == exchanges_.end() ? nullptr : it->second;
}

void Http2Connection::Finish(Exchange& exchange, std::optional<Error> failure) {
  exchanges_.erase(exchange.stream);
  exchange.failure = std::move(failure);
  exchange.finished = true;
  exchange.waiter->news.notify_all();
}

void Http2Connection::Break(const Error& error) {
  broken_ = true;
  closing_ = true;
  while (!exchanges_.empty()) {
    Finish(*exchanges_.begin()->second, error);
  }
}

// ---- the reading thread ----

void Http2Connection::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  Flush();  // the preface
  while (!stop.stop_requested() && !broken_) {
    pollfd polled[] = {
        {tls_->socket(), static_cast<short>(POLLIN | (tls_->has_unsent() ? POLLOUT : 0)), 0},
        {wake_, POLLIN, 0}};
    const Time due = ping_sent_ ? *ping_sent_ + ping_timeout_ : heard_ + ping_after_;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(due - std::chrono::steady_clock::now());
    lock.unlock();
    poll(polled, 2, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    lock.lock();
    if (polled[1].revents != 0) {
      eventfd_t count = 0;
      (void)eventfd_read(wake_, &count);
    }
    if (polled[0].revents != 0) {
      ReadAll();
    }
    KeepAlive(std::chrono::steady_clock::now());
    if (auto sent = tls_->Flush(); !sent) {
      Break(sent.error());
    }
    Flush();
    if (nghttp2_session_want_read(session_.get()) == 0 &&
        nghttp2_session_want_write(session_.get()) == 0) {
      Break({ErrorCode::kUnavailable, "the server ended the connection"});
    }
  }
  // An exchange that is still under way has a caller that holds this connection: then it broke.
}

void Http2Connection::ReadAll() {
  char bytes[16384];
  while (!broken_) {
    const auto got = tls_->Read(bytes, sizeof bytes);
    if (!got) {
      Break(got.error());
      return;
    }
    if (*got == 0) {
      return;
    }
    heard_ = std::chrono::steady_clock::now();
    ping_sent_.reset();
    const ssize_t taken =
        nghttp2_session_mem_recv(session_.get(), reinterpret_cast<const uint8_t*>(bytes), *got);
    if (taken < 0) {
      Break({ErrorCode::kUnavailable, nghttp2_strerror(static_cast<int>(taken))});
    }
  }
}

void Http2Connection::KeepAlive(Time now) {
  if (ping_sent_ && now >= *ping_sent_ + ping_timeout_) {
    Break({ErrorCode::kUnavailable, fmt::format("the connection is dead: silent for {} s",
                                                (ping_after_ + ping_timeout_).count())});
  } else if (!ping_sent_ && now >= heard_ + ping_after_) {
    nghttp2_submit_ping(session_.get(), NGHTTP2_FLAG_NONE, nullptr);
    ping_sent_ = now;
  }
}

// ---- what nghttp2 calls, under the lock ----

int Http2Connection::OnHeader(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                              const uint8_t* name, size_t name_size, const uint8_t* value,
                              size_t value_size, uint8_t /*flags*/, void* self) {
  Exchange* exchange = Self(self)->Find(frame->hd.stream_id);
  if (exchange == nullptr || frame->hd.type != NGHTTP2_HEADERS) {
    return 0;
  }
  const std::string_view key(reinterpret_cast<const char*>(name), name_size);
  const auto number = Number({reinterpret_cast<const char*>(value), value_size});
  if (key == ":status") {
    exchange->response.status = number.value_or(0);
  } else if (key == "retry-after" && number) {  // the other form, a date, no API server sends
    exchange->response.retry_after = seconds(*number);
  }
  return 0;
}

int Http2Connection::OnData(nghttp2_session* session, uint8_t /*flags*/, int32_t stream,
                            const uint8_t* data, size_t size, void* self) {
  nghttp2_session_consume_connection(session, size);
  Exchange* exchange = Self(self)->Find(stream);
  if (exchange == nullptr) {
    return 0;
  }
  const char* bytes = reinterpret_cast<const char*>(data);
  const int status = exchange->response.status;
  if (exchange->streamed && status >= 200 && status < 300) {
    exchange->piece.append(bytes, size);
    exchange->waiter->news.notify_all();
    return 0;
  }
  nghttp2_session_consume_stream(session, stream, size);
  if (exchange->response.body.size() + size > Self(self)->max_body_bytes_) {
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    Self(self)->Finish(*exchange,
                       Error{ErrorCode::kInternal, fmt::format("the answer is larger than {} bytes",
                                                               Self(self)->max_body_bytes_)});
    return 0;
  }
  exchange->response.body.append(bytes, size);
  return 0;
}

int Http2Connection::OnStreamClose(nghttp2_session* /*session*/, int32_t stream, uint32_t code,
                                   void* self) {
  Exchange* exchange = Self(self)->Find(stream);
  if (exchange == nullptr) {
    return 0;
  }
  // A server that has answered may refuse the rest of the request: NO_ERROR.
  if (code == NGHTTP2_NO_ERROR && exchange->response.status != 0) {
    Self(self)->Finish(*exchange, std::nullopt);
    return 0;
  }
  exchange->unprocessed = code == NGHTTP2_REFUSED_STREAM;
  Self(self)->Finish(*exchange,
                     Error{ErrorCode::kUnavailable, fmt::format("the server reset the stream: {}",
                                                                nghttp2_http2_strerror(code))});
  return 0;
}

int Http2Connection::OnFrame(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* self) {
  if (frame->hd.type == NGHTTP2_GOAWAY) {
    Self(self)->closing_ = true;  // what it has not looked at, nghttp2 closes as REFUSED_STREAM
  }
  return 0;
}

ssize_t Http2Connection::ReadRequestBody(nghttp2_session* /*session*/, int32_t stream,
                                         uint8_t* into, size_t size, uint32_t* flags,
                                         nghttp2_data_source* /*source*/, void* self) {
  Exchange* exchange = Self(self)->Find(stream);
  if (exchange == nullptr) {  // cancelled before it was sent
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  const std::string& body = exchange->request->body;
  const size_t take = std::min(size, body.size() - exchange->body_sent);
  std::memcpy(into, body.data() + exchange->body_sent, take);
  exchange->body_sent += take;
  if (exchange->body_sent == body.size()) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  }
  return static_cast<ssize_t>(take);
}

}  // namespace ddp::kube
