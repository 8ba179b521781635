// HttpGetter on Boost.Beast; the only file that includes it (its headers cost seconds to compile).
#include "operator/ddpjob/progress/http_get.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <thread>

namespace ddp::job {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using base::Error;
using base::ErrorCode;

// Status line and headers; also what may wait unparsed, so that no chunk header grows beyond it.
constexpr uint32_t kMaxHeaderBytes = 8 * 1024;

Error NoAnswer(const beast::error_code& error) {
  if (error == beast::error::timeout) {
    return {ErrorCode::kDeadline, fmt::format("no complete answer within {} s",
                                              HttpGetter::kDeadline / std::chrono::seconds(1))};
  }
  if (error == http::error::body_limit) {
    return {ErrorCode::kInvalid,
            fmt::format("the answer is larger than {} KiB", HttpGetter::kMaxBytes / 1024)};
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return {ErrorCode::kInvalid, "the answer's headers are too large"};
  }
  if (error.category() == http::make_error_code(http::error::end_of_stream).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return {ErrorCode::kInvalid, "the answer is not HTTP"};
  }
  if (error == asio::error::connection_refused) {
    return {ErrorCode::kUnavailable, "connection refused"};
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == asio::error::connection_reset || error == asio::error::eof) {
    return {ErrorCode::kUnavailable, "the connection was closed before the answer was complete"};
  }
  return {ErrorCode::kUnavailable, error.message()};
}

// One exchange. Keeps itself alive by the handlers that wait for it.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(asio::io_context& io, const asio::ip::tcp::endpoint& peer, const std::string& target,
           HttpGetter::Done done)
      : stream_(io),
        request_(http::verb::get, target, 11),
        buffer_(kMaxHeaderBytes),
        done_(std::move(done)) {
    request_.set(http::field::host, fmt::format("{}:{}", peer.address().to_string(), peer.port()));
    request_.set(http::field::user_agent, "ddp-operator");
    request_.set(http::field::accept, "application/json");
    request_.set(http::field::connection, "close");
    parser_.header_limit(kMaxHeaderBytes);
    parser_.body_limit(HttpGetter::kMaxBytes);
  }

  void Start(const asio::ip::tcp::endpoint& peer) {
    // Set once: it bounds the whole exchange, not the time between two bytes.
    stream_.expires_after(HttpGetter::kDeadline);
    stream_.async_connect(peer, [self = shared_from_this()](const beast::error_code& error) {
      error ? self->Fail(error) : self->Write();
    });
  }

 private:
  void Write() {
    http::async_write(
        stream_, request_,
        [self = shared_from_this()](const beast::error_code& error, size_t /*bytes*/) {
          error ? self->Fail(error) : self->Read();
        });
  }
  void Read() {
    http::async_read(stream_, buffer_, parser_,
                     [self = shared_from_this()](const beast::error_code& error, size_t /*bytes*/) {
                       error ? self->Fail(error) : self->Finish();
                     });
  }
  void Finish() {
    if (parser_.get().result_int() != 200) {
      done_(Error{ErrorCode::kUnavailable,
                  fmt::format("the answer has status {}", parser_.get().result_int())});
      return;
    }
    done_(std::move(parser_.get().body()));
  }
  void Fail(const beast::error_code& error) { done_(NoAnswer(error)); }

  beast::tcp_stream stream_;
  http::request<http::empty_body> request_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  const HttpGetter::Done done_;
};

}  // namespace

struct HttpGetter::Impl {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer timer{io};
  std::jthread thread{[this] { io.run(); }};  // last: it uses all the others

  ~Impl() { io.stop(); }
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

HttpGetter::HttpGetter() : impl_(std::make_unique<Impl>()) {}
HttpGetter::~HttpGetter() = default;

void HttpGetter::Get(const HttpAddress& address, const std::string& target, Done done) {
  asio::post(impl_->io, [this, address, target, done = std::move(done)]() mutable {
    beast::error_code error;
    const auto ip = asio::ip::make_address(address.ip, error);
    if (error || address.port <= 0 || address.port > 0xFFFF) {
      done(Error{ErrorCode::kInvalid,
                 fmt::format("'{}' port {} is no address", address.ip, address.port)});
      return;
    }
    const asio::ip::tcp::endpoint peer(ip, static_cast<uint16_t>(address.port));
    std::make_shared<Exchange>(impl_->io, peer, target, std::move(done))->Start(peer);
  });
}

void HttpGetter::WakeAt(Clock::time_point when, std::function<void()> then) {
  asio::post(impl_->io, [this, when, then = std::move(then)] {
    impl_->timer.expires_at(when);
    impl_->timer.async_wait([then](const beast::error_code& error) {
      if (!error) {
        then();
      }
    });
  });
}

}  // namespace ddp::job
