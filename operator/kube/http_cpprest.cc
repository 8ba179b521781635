// HttpTransport by HTTP/1.1 on cpprestsdk; the only file that includes it (its headers cost seconds
// to compile). API servers are spoken to by HTTP/2 where they can: see http2_transport.cc.
//
// What the library does by itself and must not do here: follow redirects with the credentials,
// trust the system's authorities, start 40 threads, time out on silence only. No `.then`: every
// wait is a blocking get() on the caller's own thread, never on the library's.
#define _TURN_OFF_PLATFORM_STRING  // its macro U() breaks other headers
#include <cpprest/http_client.h>
#include <fmt/format.h>
#include <openssl/ssl.h>
#include <pplx/threadpool.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <sstream>

#include "operator/kube/deadlines.h"
#include "operator/kube/http_transports.h"

namespace ddp::kube {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;

constexpr size_t kLibraryThreads = 4;

void InitializeLibraryOnce() {
  static std::once_flag once;
  std::call_once(once, [] { crossplat::threadpool::initialize_with_threads(kLibraryThreads); });
}

std::string ReadPem(const Pem& pem, const char* what) {
  if (!pem.text.empty()) {
    return pem.text;
  }
  std::ifstream in(pem.file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || text.str().empty()) {
    throw std::runtime_error(fmt::format("cannot read the {} in {}", what, pem.file));
  }
  return text.str();
}

void ConfigureTls(boost::asio::ssl::context& context, const TransportOptions& options) {
  SSL_CTX* native = context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  // The library has already loaded the system's authorities: start again from an empty store.
  SSL_CTX_set_cert_store(native, X509_STORE_new());
  const std::string ca = ReadPem(options.ca, "certificate authority");
  context.add_certificate_authority(boost::asio::buffer(ca));
  if (!options.client_certificate.empty()) {
    const std::string certificate = ReadPem(options.client_certificate, "client certificate");
    const std::string key = ReadPem(options.client_key, "client key");
    context.use_certificate_chain(boost::asio::buffer(certificate));
    context.use_private_key(boost::asio::buffer(key), boost::asio::ssl::context::pem);
  }
}

web::http::client::http_client_config Configure(const TransportOptions& options,
                                                std::chrono::milliseconds idle_timeout) {
  web::http::client::http_client_config config;
  config.set_timeout(idle_timeout);
  config.set_max_redirects(0);
  config.set_ssl_context_callback(
      [options](boost::asio::ssl::context& context) { ConfigureTls(context, options); });
  return config;
}

// Why an exchange ended before its answer was complete.
struct Ending {
  std::stop_token stop;
  std::atomic<bool> deadline_passed{false};
};

Error Classify(const Ending& ending, const std::string& request, const std::string& what) {
  if (ending.stop.stop_requested()) {
    return {ErrorCode::kCancelled, fmt::format("{}: stopped", request)};
  }
  if (ending.deadline_passed) {
    return {ErrorCode::kDeadline, fmt::format("{}: no complete answer in time", request)};
  }
  return {ErrorCode::kUnavailable, fmt::format("{}: {}", request, what)};
}

std::optional<std::chrono::seconds> RetryAfter(const web::http::http_headers& headers) {
  const auto it = headers.find("Retry-After");
  if (it == headers.end()) {
    return std::nullopt;
  }
  // The other form, a date, is never sent by an API server.
  char* end = nullptr;
  const long seconds = std::strtol(it->second.c_str(), &end, 10);
  if (end == it->second.c_str() || *end != '\0' || seconds < 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(seconds);
}

// Hands the body over block by block without copying it. False: on_bytes wanted no more.
bool ReadBody(const web::http::http_response& response,
              const std::function<bool(std::string_view)>& on_bytes) {
  auto buffer = response.body().streambuf();
  for (;;) {
    const auto next = buffer.getc().get();  // waits for a byte, the end, or throws
    if (next == decltype(buffer)::traits::eof()) {
      return true;
    }
    uint8_t* data = nullptr;
    size_t size = 0;
    if (!buffer.acquire(data, size) || size == 0) {
      return true;
    }
    const bool more = on_bytes({reinterpret_cast<const char*>(data), size});
    buffer.release(data, size);
    if (!more) {
      return false;
    }
  }
}

class CpprestTransport : public HttpTransport {
 public:
  explicit CpprestTransport(const TransportOptions& options)
      : prefix_(Prefix(options.server)),
        user_agent_(options.user_agent),
        max_body_bytes_(options.max_body_bytes),
        client_(Origin(options.server), Configure(options, options.idle_timeout)),
        stream_client_(Origin(options.server), Configure(options, options.stream_idle_timeout)) {}

  Result<HttpResponse> Send(const HttpRequest& request, std::stop_token stop) override {
    return Exchange(client_, request, std::move(stop), nullptr);
  }

  Result<HttpResponse> Stream(const HttpRequest& request, std::stop_token stop,
                              const std::function<bool(std::string_view)>& on_bytes) override {
    return Exchange(stream_client_, request, std::move(stop), &on_bytes);
  }

 private:
  static size_t PathStart(const std::string& server) {
    return server.find('/', server.find("://") + 3);
  }
  static std::string Origin(const std::string& server) {
    return server.substr(0, PathStart(server));
  }
  static std::string Prefix(const std::string& server) {
    const size_t start = PathStart(server);
    std::string prefix = start == std::string::npos ? "" : server.substr(start);
    while (prefix.ends_with('/')) {
      prefix.pop_back();
    }
    return prefix;
  }

  web::http::http_request Build(const HttpRequest& request) const {
    web::http::http_request out(request.method);
    out.set_request_uri(web::uri(prefix_ + request.target));
    out.headers().add("User-Agent", user_agent_);
    out.headers().add("Accept", request.accept);
    if (!request.bearer.empty()) {
      out.headers().add("Authorization", "Bearer " + request.bearer);
    }
    if (!request.content_type.empty()) {
      out.set_body(request.body, request.content_type);
    }
    return out;
  }

  Result<HttpResponse> Exchange(web::http::client::http_client& client, const HttpRequest& request,
                                std::stop_token stop,
                                const std::function<bool(std::string_view)>* on_bytes) {
    const std::string name = request.method + " " + request.target;
    pplx::cancellation_token_source source;
    Ending ending{stop};
    const std::stop_callback on_stop(stop, [&source] { source.cancel(); });
    std::optional<Deadlines::Guard> guard;
    if (on_bytes == nullptr) {
      guard.emplace(deadlines_, std::chrono::steady_clock::now() + request.deadline, [&] {
        ending.deadline_passed = true;
        source.cancel();
      });
    }
    try {
      auto response = client.request(Build(request), source.get_token()).get();
      HttpResponse out;
      out.status = response.status_code();
      out.retry_after = RetryAfter(response.headers());
      const bool streams = on_bytes != nullptr && out.status >= 200 && out.status < 300;
      bool too_large = false;
      const bool complete = ReadBody(response, [&](std::string_view bytes) {
        if (streams) {
          return (*on_bytes)(bytes);
        }
        too_large = out.body.size() + bytes.size() > max_body_bytes_;
        if (!too_large) {
          out.body += bytes;
        }
        return !too_large;
      });
      if (!complete) {
        source.cancel();  // closes the connection: the rest of the body is not wanted
      }
      if (too_large) {
        return Error{ErrorCode::kInternal,
                     fmt::format("{}: the answer is larger than {} bytes", name, max_body_bytes_)};
      }
      return out;
    } catch (const std::exception& e) {
      return Classify(ending, name, e.what());
    }
  }

  const std::string prefix_;
  const std::string user_agent_;
  const size_t max_body_bytes_;
  web::http::client::http_client client_;
  web::http::client::http_client stream_client_;
  Deadlines deadlines_;
};

}  // namespace

Result<std::unique_ptr<HttpTransport>> MakeHttp1Transport(const TransportOptions& options) {
  if (options.server.find("://[") != std::string::npos) {
    return Error{
        ErrorCode::kInvalid,
        fmt::format("server '{}' is an IPv6 address and speaks HTTP/1.1, which the library "
                    "for that cannot reach: give a host name instead",
                    options.server)};
  }
  try {
    InitializeLibraryOnce();
    return std::unique_ptr<HttpTransport>(std::make_unique<CpprestTransport>(options));
  } catch (const std::exception& e) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("cannot set up HTTP to '{}': {}", options.server, e.what())};
  }
}

}  // namespace ddp::kube
