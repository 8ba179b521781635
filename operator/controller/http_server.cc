// The only file of this folder that includes Boost.Beast (its headers cost seconds to compile).
#include "operator/controller/http_server.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <ctime>
#include <filesystem>
#include <list>
#include <thread>
#include <type_traits>

#include "operator/base/log.h"

namespace ddp::controller {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using base::Error;
using base::ErrorCode;

constexpr std::chrono::seconds kPatience{10};  // with one connection
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr size_t kMaxConnections = 64;
constexpr uint32_t kMaxHeaderBytes = 16 * 1024;  // a token may be long

using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

Response Answer(const Request& request, const HttpServer::Handler& handler) {
  const beast::string_view target = request.target();
  const beast::string_view token = request[http::field::authorization];
  const beast::string_view host = request[http::field::host];
  const std::string_view path(target.data(), std::min(target.find('?'), target.size()));
  HttpAnswer answer;
  if (request.method() == http::verb::get) {
    answer = handler({path, {token.data(), token.size()}, {host.data(), host.size()}});
  } else {
    answer = {405, "text/plain", "only GET is answered here\n"};
  }
  Response response{http::int_to_status(static_cast<unsigned>(answer.status)), request.version()};
  response.set(http::field::content_type, answer.type);
  if (answer.asks_for_token) {
    response.set(http::field::www_authenticate, "Bearer");
  }
  if (answer.is_page) {
    response.set(http::field::cache_control, "no-store");
    response.set("Content-Security-Policy",
                 "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; "
                 "base-uri 'none'; form-action 'none'");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("Referrer-Policy", "no-referrer");
  }
  response.keep_alive(false);
  response.body() = std::move(answer.body);
  response.prepare_payload();
  return response;
}

// A connection that can be dropped.
class Connection {
 public:
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;
  virtual void Drop() = 0;
};

// One request and its answer. Keeps itself alive by the handlers that wait for it.
template <typename Stream>
class Session : public Connection, public std::enable_shared_from_this<Session<Stream>> {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, beast::tcp_stream>;

  template <typename... Arguments>
  explicit Session(const HttpServer::Handler& handler, Arguments&&... arguments)
      : handler_(handler),
        stream_(std::forward<Arguments>(arguments)...),
        buffer_(kMaxHeaderBytes) {
    parser_.header_limit(kMaxHeaderBytes);
  }

  void Start() {
    // Set once: it bounds everything that is done with this peer.
    beast::get_lowest_layer(stream_).expires_after(kPatience);
    if constexpr (kTls) {
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](const beast::error_code& error) {
                                if (!error) {
                                  self->Read();
                                }
                              });
    } else {
      Read();
    }
  }

  void Drop() override { beast::get_lowest_layer(stream_).close(); }

 private:
  void Read() {
    http::async_read(stream_, buffer_, parser_,
                     [self = this->shared_from_this()](const beast::error_code& error, size_t) {
                       if (!error) {
                         self->Write();
                       }
                     });
  }
  void Write() {
    response_ = Answer(parser_.get(), handler_);
    http::async_write(stream_, response_,
                      [self = this->shared_from_this()](const beast::error_code& error, size_t) {
                        if (!error) {
                          self->End();
                        }
                      });
  }
  void End() {
    if constexpr (kTls) {
      stream_.async_shutdown([self = this->shared_from_this()](const beast::error_code&) {});
    } else {
      beast::error_code ignored;  // the peer may be gone: so are we
      stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    }
  }

  const HttpServer::Handler& handler_;
  Stream stream_;
  beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> parser_;
  Response response_;
};

// The certificate in use; a file that has changed is read with the next connection.
class Certificate {
 public:
  explicit Certificate(HttpServer::Tls files) : files_(std::move(files)) {}

  // Throws when the files can't be used.
  void Load() {
    const auto stamp = Stamp();
    auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    context->use_certificate_chain_file(files_.certificate_file);
    context->use_private_key_file(files_.key_file, asio::ssl::context::pem);
    if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
      throw std::runtime_error("the key is not that of the certificate");
    }
    expiry_ = Expiry(SSL_CTX_get0_certificate(context->native_handle()));
    context_ = std::move(context);
    stamp_ = stamp;
  }
  std::chrono::system_clock::time_point expiry() const { return expiry_.load(); }
  // The last good one while a rotation is under way.
  std::shared_ptr<asio::ssl::context> Get() {
    if (Stamp() != stamp_) {
      try {
        Load();
      } catch (const std::exception& error) {
        stamp_ = Stamp();  // said once for each change
        base::Log(base::Level::kWarning, "the new certificate of the metrics can't be used",
                  {{"certificate", files_.certificate_file}, {"error", error.what()}});
      }
    }
    return context_;
  }

 private:
  using Times = std::pair<std::filesystem::file_time_type, std::filesystem::file_time_type>;
  static std::chrono::system_clock::time_point Expiry(const X509* certificate) {
    std::tm parts{};
    ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts);
    return std::chrono::system_clock::from_time_t(timegm(&parts));
  }
  Times Stamp() const {
    std::error_code missing;  // shows as another time
    return {std::filesystem::last_write_time(files_.certificate_file, missing),
            std::filesystem::last_write_time(files_.key_file, missing)};
  }

  const HttpServer::Tls files_;
  std::shared_ptr<asio::ssl::context> context_;
  Times stamp_;
  std::atomic<std::chrono::system_clock::time_point> expiry_{};
};

tcp::acceptor Listen(asio::io_context& io, int port, bool loopback_only) {
  const auto open = [&](const tcp& protocol) {
    tcp::acceptor acceptor(io, protocol);
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    if (protocol == tcp::v6()) {
      acceptor.set_option(asio::ip::v6_only(false));
    }
    const auto number = static_cast<uint16_t>(port);
    acceptor.bind(loopback_only ? tcp::endpoint(asio::ip::address_v4::loopback(), number)
                                : tcp::endpoint(protocol, number));
    acceptor.listen();
    return acceptor;
  };
  if (loopback_only) {
    return open(tcp::v4());
  }
  try {
    return open(tcp::v6());
  } catch (const boost::system::system_error& error) {
    if (error.code() == asio::error::address_in_use) {
      throw;
    }
    return open(tcp::v4());  // a machine without IPv6
  }
}

}  // namespace

struct HttpServer::Impl {
  Impl(const Options& options, Handler answers)
      : handler(std::move(answers)),
        certificate(options.tls ? std::make_unique<Certificate>(*options.tls) : nullptr),
        acceptor(Listen(io, options.port, options.loopback_only)) {
    if (certificate != nullptr) {
      certificate->Load();
    }
    Accept();
    thread = std::jthread([this] { io.run(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { io.stop(); }

  void Accept() {
    acceptor.async_accept([this](const beast::error_code& error, tcp::socket socket) {
      if (!error) {
        Begin(std::move(socket));
        Accept();
        return;
      }
      // Out of descriptors, most likely: the eldest's comes free.
      DropEldest();
      pause.expires_after(kAcceptPause);
      pause.async_wait([this](const beast::error_code& ended) {
        if (!ended) {
          Accept();
        }
      });
    });
  }
  void Begin(tcp::socket socket) {
    connections.remove_if([](const auto& connection) { return connection.expired(); });
    if (connections.size() >= kMaxConnections) {
      DropEldest();
    }
    if (certificate == nullptr) {
      Keep(std::make_shared<Session<beast::tcp_stream>>(handler, std::move(socket)));
    } else {
      tls = certificate->Get();
      Keep(std::make_shared<Session<beast::ssl_stream<beast::tcp_stream>>>(
          handler, std::move(socket), *tls));
    }
  }
  template <typename Kind>
  void Keep(const std::shared_ptr<Kind>& session) {
    connections.push_back(session);
    session->Start();
  }
  void DropEldest() {
    if (!connections.empty()) {
      if (const auto eldest = connections.front().lock()) {
        eldest->Drop();
      }
      connections.pop_front();
    }
  }

  const Handler handler;
  const std::unique_ptr<Certificate> certificate;
  std::shared_ptr<asio::ssl::context> tls;  // a stream keeps what it needs of an older one
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer pause{io};
  std::list<std::weak_ptr<Connection>> connections;  // eldest first
  std::jthread thread;                               // last: it uses all the others
};

base::Result<std::unique_ptr<HttpServer>> HttpServer::Start(const Options& options,
                                                            Handler handler) {
  try {
    return std::unique_ptr<HttpServer>(
        new HttpServer(std::make_unique<Impl>(options, std::move(handler))));
  } catch (const boost::system::system_error& error) {
    if (error.code().category() == asio::error::get_ssl_category()) {
      return Error{ErrorCode::kInvalid,
                   fmt::format("the certificate in {} and the key in {} can't be used: {}",
                               options.tls->certificate_file, options.tls->key_file, error.what())};
    }
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("cannot listen on port {} ({}). Choose another with {} (0: any free one)",
                    options.port, error.code().message(), options.flag)};
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInvalid, error.what()};
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const {
  beast::error_code ignored;
  return impl_->acceptor.local_endpoint(ignored).port();
}

std::optional<std::chrono::system_clock::time_point> HttpServer::certificate_expiry() const {
  return impl_->certificate != nullptr ? std::optional(impl_->certificate->expiry()) : std::nullopt;
}

}  // namespace ddp::controller
