#include "operator/kube/tls_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace ddp::kube {
namespace {

using base::Done;
using base::Error;
using base::ErrorCode;
using base::Result;

// HTTP/2 if the server can, else HTTP/1.1.
constexpr unsigned char kProtocols[] = "\x02h2\x08http/1.1";

std::string OpensslError() {
  char text[256] = "unknown error";
  const unsigned long code = ERR_get_error();
  if (code != 0) {
    ERR_error_string_n(code, text, sizeof text);
  }
  ERR_clear_error();
  return text;
}

Result<std::string> ReadPem(const Pem& pem, const char* what) {
  if (!pem.text.empty()) {
    return pem.text;
  }
  std::ifstream in(pem.file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (text.empty()) {
    return Error{ErrorCode::kUnavailable, fmt::format("cannot read the {} in {}", what, pem.file)};
  }
  return text;
}

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
Bio BioOf(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
Certificate NextCertificate(BIO* bio) {
  return {PEM_read_bio_X509(bio, nullptr, nullptr, nullptr), X509_free};
}

Result<Done> TrustOnly(SSL_CTX* context, const Pem& pem) {
  auto text = ReadPem(pem, "certificate authority");
  if (!text) {
    return text.error();
  }
  const Bio bio = BioOf(*text);
  X509_STORE* store = SSL_CTX_get_cert_store(context);  // empty: no system authorities
  int count = 0;
  while (const Certificate certificate = NextCertificate(bio.get())) {
    count += X509_STORE_add_cert(store, certificate.get());
  }
  ERR_clear_error();  // the end of the text is reported as an error
  if (count == 0) {
    return Error{ErrorCode::kUnavailable,
                 "the certificate authority is not a certificate in PEM form"};
  }
  return Done{};
}

Result<Done> IdentifyBy(SSL_CTX* context, const Pem& certificate_pem, const Pem& key_pem) {
  auto certificate_text = ReadPem(certificate_pem, "client certificate");
  auto key_text = ReadPem(key_pem, "client key");
  if (!certificate_text || !key_text) {
    return certificate_text ? key_text.error() : certificate_text.error();
  }
  const Bio certificates = BioOf(*certificate_text);
  const Certificate own = NextCertificate(certificates.get());
  bool good = own != nullptr && SSL_CTX_use_certificate(context, own.get()) == 1;
  while (const Certificate next = NextCertificate(certificates.get())) {
    good = good && SSL_CTX_add1_chain_cert(context, next.get()) == 1;
  }
  ERR_clear_error();
  const Bio key_bio = BioOf(*key_text);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  if (!good || key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return Error{
        ErrorCode::kInvalid,
        fmt::format("the client certificate or its key cannot be used: {}", OpensslError())};
  }
  return Done{};
}

bool IsIpAddress(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

ServerAddress ParseServer(const std::string& server) {
  ServerAddress address;
  const size_t start = server.find("://") + 3;
  const size_t slash = server.find('/', start);
  address.authority = server.substr(start, slash == std::string::npos ? slash : slash - start);
  if (slash != std::string::npos) {
    address.prefix = server.substr(slash);
    while (address.prefix.ends_with('/')) {
      address.prefix.pop_back();
    }
  }
  const size_t bracket = address.authority.rfind(']');
  const size_t colon = address.authority.rfind(':');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  address.host = address.authority.substr(0, has_port ? colon : std::string::npos);
  address.port = has_port ? address.authority.substr(colon + 1) : "443";
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  return address;
}

// The blocking part: name, TCP, handshake, each within one deadline, ended early by a stop.
class TlsConnection::Opening {
 public:
  Opening(const TransportOptions& options, Time deadline, const std::stop_token& stop)
      : options_(options),
        server_(ParseServer(options.server)),
        deadline_(deadline),
        stop_(stop),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        on_stop_(stop, [this] { (void)eventfd_write(wake_, 1); }) {}
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
  ~Opening() { close(wake_); }

  Result<std::unique_ptr<TlsConnection>> Run() {
    std::unique_ptr<TlsConnection> connection(new TlsConnection());
    if (auto prepared = Prepare(*connection); !prepared) {
      return prepared.error();
    }
    if (auto connected = Connect(*connection); !connected) {
      return connected.error();
    }
    if (auto agreed = Handshake(*connection); !agreed) {
      return agreed.error();
    }
    return connection;
  }

 private:
  Error Trouble(const std::string& what) const {
    if (stop_.stop_requested()) {
      return {ErrorCode::kCancelled, "stopped while connecting"};
    }
    return {ErrorCode::kUnavailable,
            fmt::format("cannot connect to {}: {}", options_.server, what)};
  }

  Result<Done> Prepare(TlsConnection& connection) {
    connection.context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX* context = connection.context_.get();
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_alpn_protos(context, kProtocols, sizeof kProtocols - 1);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    if (auto trusted = TrustOnly(context, options_.ca); !trusted) {
      return trusted;
    }
    if (!options_.client_certificate.empty()) {
      if (auto known = IdentifyBy(context, options_.client_certificate, options_.client_key);
          !known) {
        return known;
      }
    }
    connection.ssl_.reset(SSL_new(context));
    SSL* ssl = connection.ssl_.get();
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl);
    if (IsIpAddress(server_.host)) {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_.host.c_str());
    } else {
      SSL_set1_host(ssl, server_.host.c_str());
      SSL_set_tlsext_host_name(ssl, server_.host.c_str());
    }
    return Done{};
  }

  // Until the socket is ready, the deadline, or a stop.
  Result<Done> Await(int socket, short events) {
    pollfd polled[] = {{socket, events, 0}, {wake_, POLLIN, 0}};
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    const int ready = poll(polled, 2, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (stop_.stop_requested()) {
      return Trouble("");
    }
    if (ready == 0) {
      return Error{ErrorCode::kDeadline,
                   fmt::format("cannot connect to {}: no answer in time", options_.server)};
    }
    return Done{};
  }

  Result<Done> Connect(TlsConnection& connection) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code = getaddrinfo(server_.host.c_str(), server_.port.c_str(), &hints, &found);
    if (code != 0) {
      return Trouble(gai_strerror(code));
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
    Result<Done> last = Trouble("no address");
    for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
      last = ConnectTo(connection, *address);
      if (last || stop_.stop_requested()) {
        break;
      }
    }
    return last;
  }

  Result<Done> ConnectTo(TlsConnection& connection, const addrinfo& address) {
    if (connection.socket_ >= 0) {
      close(connection.socket_);
    }
    connection.socket_ = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int socket = connection.socket_;
    if (socket < 0) {
      return Trouble(std::strerror(errno));
    }
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(socket, address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
      return Trouble(std::strerror(errno));
    }
    if (auto ready = Await(socket, POLLOUT); !ready) {
      return ready;
    }
    int trouble = 0;
    socklen_t size = sizeof trouble;
    getsockopt(socket, SOL_SOCKET, SO_ERROR, &trouble, &size);
    return trouble == 0 ? Result<Done>(Done{}) : Trouble(std::strerror(trouble));
  }

  Result<Done> Handshake(TlsConnection& connection) {
    SSL* ssl = connection.ssl_.get();
    for (;;) {
      const int done = SSL_do_handshake(ssl);
      const int why = SSL_get_error(ssl, done);
      if (auto sent = connection.Flush(); !sent) {
        return Trouble(sent.error().message);
      }
      if (done == 1) {
        return Done{};
      }
      if (why != SSL_ERROR_WANT_READ) {
        const long verdict = SSL_get_verify_result(ssl);
        return Trouble(verdict != X509_V_OK ? fmt::format("its certificate is refused: {}",
                                                          X509_verify_cert_error_string(verdict))
                                            : OpensslError());
      }
      const short events = static_cast<short>(POLLIN | (connection.has_unsent() ? POLLOUT : 0));
      if (auto ready = Await(connection.socket_, events); !ready) {
        return ready;
      }
      if (auto received = connection.Receive(); !received) {
        return Trouble(received.error().message);
      }
    }
  }

  const TransportOptions& options_;
  const ServerAddress server_;
  const Time deadline_;
  const std::stop_token stop_;
  const int wake_;
  const std::stop_callback<std::function<void()>> on_stop_;
};

Result<std::unique_ptr<TlsConnection>> TlsConnection::Open(const TransportOptions& options,
                                                           Time deadline,
                                                           const std::stop_token& stop) {
  return Opening(options, deadline, stop).Run();
}

TlsConnection::~TlsConnection() {
  if (socket_ >= 0) {
    close(socket_);
  }
}

bool TlsConnection::speaks_http2() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return std::string_view(reinterpret_cast<const char*>(name), size) == "h2";
}

// Moves encrypted bytes from the socket to the library; how many.
Result<size_t> TlsConnection::Receive() {
  char bytes[16384];
  const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
  if (got == 0) {
    return Error{ErrorCode::kUnavailable, "the server closed the connection"};
  }
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      return size_t{0};
    }
    return Error{ErrorCode::kUnavailable, std::strerror(errno)};
  }
  BIO_write(SSL_get_rbio(ssl_.get()), bytes, static_cast<int>(got));
  return static_cast<size_t>(got);
}

Result<size_t> TlsConnection::Read(char* into, size_t size) {
  for (;;) {
    size_t got = 0;
    if (SSL_read_ex(ssl_.get(), into, size, &got) == 1) {
      return got;
    }
    const int why = SSL_get_error(ssl_.get(), 0);
    if (why == SSL_ERROR_ZERO_RETURN) {
      return Error{ErrorCode::kUnavailable, "the server closed the connection"};
    }
    if (why != SSL_ERROR_WANT_READ) {
      return Error{ErrorCode::kUnavailable, OpensslError()};
    }
    auto received = Receive();
    if (!received || *received == 0) {
      return received;
    }
  }
}

Result<Done> TlsConnection::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    size_t taken = 0;
    if (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &taken) != 1) {
      return Error{ErrorCode::kUnavailable, OpensslError()};
    }
    bytes.remove_prefix(taken);
  }
  return Flush();
}

Result<Done> TlsConnection::Flush() {
  BIO* out = SSL_get_wbio(ssl_.get());
  char* made = nullptr;
  if (const long size = BIO_get_mem_data(out, &made); size > 0) {
    unsent_.append(made, static_cast<size_t>(size));
    BIO_reset(out);
  }
  size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t n = send(socket_, unsent_.data() + sent, unsent_.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) {
      if (errno == EAGAIN) {
        break;
      }
      return Error{ErrorCode::kUnavailable, std::strerror(errno)};
    }
    sent += n > 0 ? static_cast<size_t>(n) : 0;
  }
  unsent_.erase(0, sent);
  return Done{};
}

}  // namespace ddp::kube
