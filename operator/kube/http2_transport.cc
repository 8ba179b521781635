// HttpTransport over HTTP/2, for API servers: one connection for all requests and watches, so one
// handshake, and headers (a token of a kilobyte among them) that are sent once. A server that does
// not offer HTTP/2 is spoken to by HTTP/1.1 instead.
#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "operator/kube/http2_connection.h"
#include "operator/kube/http_transports.h"

namespace ddp::kube {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using Time = std::chrono::steady_clock::time_point;

constexpr std::chrono::seconds kLongestConnect{10};
// Of a request that the server says it has not looked at.
constexpr int kMostLaunches = 5;

Time Now() { return std::chrono::steady_clock::now(); }

std::string NameOf(const HttpRequest& request) { return request.method + " " + request.target; }

Error Named(const HttpRequest& request, Error error) {
  error.message = fmt::format("{}: {}", NameOf(request), error.message);
  return error;
}

class Http2Transport : public HttpTransport {
 public:
  explicit Http2Transport(const TransportOptions& options) : options_(options) {}

  Result<HttpResponse> Send(const HttpRequest& request, std::stop_token stop) override {
    Result<HttpResponse> answer = Error{};
    SendMany(
        1, [&request](size_t) { return request; }, 1, std::move(stop),
        [&answer](size_t, Result<HttpResponse> result) {
          answer = std::move(result);
          return true;
        });
    return answer;
  }

  void SendMany(size_t count, const Make& make, size_t at_once, std::stop_token stop,
                const OnAnswer& on_answer) override;

  Result<HttpResponse> Stream(const HttpRequest& request, std::stop_token stop,
                              const std::function<bool(std::string_view)>& on_bytes) override;

 private:
  class Many;

  // The connection in use, or a new one. Null: the server speaks only HTTP/1.1, see http1_.
  Result<std::shared_ptr<Http2Connection>> Connection(Time deadline, const std::stop_token& stop);
  // Null, and `http1` made, for a server without HTTP/2.
  Result<std::shared_ptr<Http2Connection>> Connect(Time deadline, const std::stop_token& stop,
                                                   std::unique_ptr<HttpTransport>& http1);

  const TransportOptions options_;
  std::mutex mutex_;
  std::condition_variable_any connected_;
  bool connecting_ = false;
  std::optional<Error> last_error_;
  std::shared_ptr<Http2Connection> connection_;
  std::unique_ptr<HttpTransport> http1_;  // set once, never taken back
};

Result<std::shared_ptr<Http2Connection>> Http2Transport::Connection(Time deadline,
                                                                    const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (http1_ != nullptr) {
      return std::shared_ptr<Http2Connection>();
    }
    if (connection_ != nullptr) {
      const auto look = connection_->Lock();
      if (connection_->usable()) {
        return connection_;
      }
    }
    if (!connecting_) {
      break;
    }
    // One tries for all; its failure is everybody's.
    last_error_.reset();
    const bool news = connected_.wait_until(lock, stop, deadline, [this] { return !connecting_; });
    if (!news) {
      return stop.stop_requested() ? Error{ErrorCode::kCancelled, "stopped"}
                                   : Error{ErrorCode::kDeadline, "no connection in time"};
    }
    if (last_error_ && last_error_->code != ErrorCode::kCancelled) {
      return *last_error_;
    }
  }
  connecting_ = true;
  lock.unlock();
  std::unique_ptr<HttpTransport> http1;
  auto made = Connect(deadline, stop, http1);
  lock.lock();
  connecting_ = false;
  last_error_ = made ? std::nullopt : std::optional(made.error());
  std::shared_ptr<Http2Connection> old;
  if (made) {
    old = std::exchange(connection_, *made);
    http1_ = std::move(http1);
  }
  connected_.notify_all();
  lock.unlock();  // before `old` goes, which may wait for its thread
  return made;
}

Result<std::shared_ptr<Http2Connection>> Http2Transport::Connect(
    Time deadline, const std::stop_token& stop, std::unique_ptr<HttpTransport>& http1) {
  auto tls = TlsConnection::Open(options_, std::min(deadline, Now() + kLongestConnect), stop);
  if (!tls) {
    return tls.error();
  }
  if (!(*tls)->speaks_http2()) {
    auto other = MakeHttp1Transport(options_);
    if (!other) {
      return other.error();
    }
    http1 = *std::move(other);
    return std::shared_ptr<Http2Connection>();
  }
  return std::make_shared<Http2Connection>(*std::move(tls), options_);
}

// One caller's requests, a bounded number of them under way.
class Http2Transport::Many {
 public:
  Many(Http2Transport& transport, size_t count, const Make& make, size_t at_once,
       std::stop_token stop, const OnAnswer& on_answer)
      : transport_(transport),
        count_(count),
        make_(make),
        at_once_(at_once),
        stop_(std::move(stop)),
        on_answer_(on_answer) {}

  void Run() {
    for (;;) {
      Fill();
      if (flights_.empty()) {
        if (next_ >= count_ || !wanted_) {
          return;
        }
        continue;
      }
      Harvest();
    }
  }

 private:
  struct Flight {
    size_t index = 0;
    HttpRequest request;
    Time deadline;
    std::shared_ptr<Http2Connection> connection;
    Exchange exchange;
    bool flushed = false;
    int launches = 0;
  };

  void Tell(size_t index, Result<HttpResponse> result) {
    const bool more = on_answer_(index, std::move(result));
    wanted_ = wanted_ && more;
  }

  void Fill() {
    while (wanted_ && next_ < count_ && flights_.size() < at_once_) {
      const size_t index = next_++;
      Flight& flight = flights_.emplace_back();
      flight.index = index;
      flight.request = make_(index);
      flight.deadline = Now() + flight.request.deadline;
      if (!Launch(flight)) {
        flights_.pop_back();
      }
    }
    FlushStarted();
  }

  // Once for all that were started: their bytes go out together.
  void FlushStarted() {
    for (Flight& flight : flights_) {
      if (std::exchange(flight.flushed, true)) {
        continue;
      }
      const auto lock = flight.connection->Lock();
      flight.connection->Flush();
    }
  }

  // False: answered already.
  bool Launch(Flight& flight) {
    auto connection = transport_.Connection(flight.deadline, stop_);
    if (!connection) {
      Tell(flight.index, Named(flight.request, connection.error()));
      return false;
    }
    if (*connection == nullptr) {
      Tell(flight.index, transport_.http1_->Send(flight.request, stop_));
      return false;
    }
    flight.connection = *std::move(connection);
    flight.exchange = Exchange{};
    flight.exchange.request = &flight.request;
    flight.exchange.waiter = &waiter_;
    const auto lock = flight.connection->Lock();
    flight.connection->Start(flight.exchange);
    flight.flushed = false;
    ++flight.launches;
    return true;
  }

  // Waits until one is finished, and tells of all that are.
  void Harvest() {
    Flight& oldest = flights_.front();  // its deadline comes first
    {
      auto lock = oldest.connection->Lock();
      // Flights on another connection make no news here: then the wait is short.
      const Time until =
          std::all_of(flights_.begin(), flights_.end(),
                      [&](const Flight& flight) { return flight.connection == oldest.connection; })
              ? oldest.deadline
              : std::min(oldest.deadline, Now() + std::chrono::milliseconds(20));
      const bool finished = waiter_.news.wait_until(lock, stop_, until, [&] {
        return std::any_of(flights_.begin(), flights_.end(), [&](const Flight& flight) {
          return flight.connection == oldest.connection && flight.exchange.finished;
        });
      });
      if (!finished && (stop_.stop_requested() || Now() >= oldest.deadline)) {
        oldest.connection->Cancel(oldest.exchange);
        oldest.exchange.failure = stop_.stop_requested()
                                      ? Error{ErrorCode::kCancelled, "stopped"}
                                      : Error{ErrorCode::kDeadline, "no complete answer in time"};
      }
    }
    for (auto it = flights_.begin(); it != flights_.end();) {
      it = Settle(*it) ? flights_.erase(it) : std::next(it);
    }
  }

  // True: told of, and done with.
  bool Settle(Flight& flight) {
    {
      const auto lock = flight.connection->Lock();
      if (!flight.exchange.finished) {
        return false;
      }
    }
    if (!flight.exchange.failure) {
      Tell(flight.index, std::move(flight.exchange.response));
      return true;
    }
    if (flight.exchange.unprocessed && flight.launches < kMostLaunches && !stop_.stop_requested()) {
      return !Launch(flight);
    }
    Tell(flight.index, Named(flight.request, *flight.exchange.failure));
    return true;
  }

  Http2Transport& transport_;
  const size_t count_;
  const Make& make_;
  const size_t at_once_;
  const std::stop_token stop_;
  const OnAnswer& on_answer_;
  size_t next_ = 0;
  bool wanted_ = true;
  Waiter waiter_;
  std::list<Flight> flights_;  // a list: exchanges must not move
};

void Http2Transport::SendMany(size_t count, const Make& make, size_t at_once, std::stop_token stop,
                              const OnAnswer& on_answer) {
  Many(*this, count, make, at_once, std::move(stop), on_answer).Run();
}

Result<HttpResponse> Http2Transport::Stream(const HttpRequest& request, std::stop_token stop,
                                            const std::function<bool(std::string_view)>& on_bytes) {
  auto connection = Connection(Now() + kLongestConnect, stop);
  if (!connection) {
    return Named(request, connection.error());
  }
  if (*connection == nullptr) {
    return http1_->Stream(request, std::move(stop), on_bytes);
  }
  Waiter waiter;
  Exchange exchange;
  exchange.request = &request;
  exchange.streamed = true;
  exchange.waiter = &waiter;
  auto lock = (*connection)->Lock();
  (*connection)->Start(exchange);
  (*connection)->Flush();
  for (;;) {
    const bool news = waiter.news.wait_until(lock, stop, Now() + options_.stream_idle_timeout, [&] {
      return exchange.finished || !exchange.piece.empty();
    });
    if (!news) {
      (*connection)->Cancel(exchange);
      return Named(request, stop.stop_requested() ? Error{ErrorCode::kCancelled, "stopped"}
                                                  : Error{ErrorCode::kDeadline,
                                                          "the stream was silent for too long"});
    }
    if (exchange.piece.empty()) {
      break;
    }
    const std::string piece = std::exchange(exchange.piece, {});
    lock.unlock();
    const bool wanted = on_bytes(piece);
    lock.lock();
    if (!wanted) {
      (*connection)->Cancel(exchange);
      return std::move(exchange.response);
    }
    (*connection)->Taken(exchange, piece.size());
  }
  if (exchange.failure) {
    return Named(request, *exchange.failure);
  }
  return std::move(exchange.response);
}

Result<base::Done> CheckServer(const TransportOptions& options) {
  const std::string& server = options.server;
  const bool tls = server.starts_with("https://");
  if (!tls && !server.starts_with("http://")) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("server '{}' must start with https:// or http://", server)};
  }
  const ServerAddress address = ParseServer(server);
  const bool bad_port =
      address.port.empty() || address.port.find_first_not_of("0123456789") != std::string::npos;
  if (address.host.empty() || bad_port || server.find_first_of(" \t\r\n@?#") != std::string::npos) {
    return Error{ErrorCode::kInvalid, fmt::format("server '{}' is not a URL with a host", server)};
  }
  if (tls && options.ca.empty()) {
    return Error{
        ErrorCode::kInvalid,
        fmt::format("server '{}' needs a certificate authority to be checked against", server)};
  }
  return base::Done{};
}

}  // namespace

void HttpTransport::SendMany(size_t count, const Make& make, size_t /*at_once*/,
                             std::stop_token stop, const OnAnswer& on_answer) {
  for (size_t i = 0; i < count; ++i) {
    if (!on_answer(i, Send(make(i), stop))) {
      return;
    }
  }
}

Result<std::unique_ptr<HttpTransport>> MakeHttpTransport(TransportOptions options) {
  if (auto checked = CheckServer(options); !checked) {
    return checked.error();
  }
  if (options.server.starts_with("https://")) {
    return std::unique_ptr<HttpTransport>(std::make_unique<Http2Transport>(options));
  }
  return MakeHttp1Transport(options);
}

}  // namespace ddp::kube
