#include "operator/kube/fake_http2_server.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <csignal>

namespace ddp::kube {
namespace {

nghttp2_nv Field(const std::string& name, const std::string& value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

int ChooseHttp2(SSL* /*ssl*/, const unsigned char** out, unsigned char* size,
                const unsigned char* offered, unsigned offered_size, void* /*arg*/) {
  static constexpr unsigned char kHttp2[] = "\x02h2";
  return SSL_select_next_proto(const_cast<unsigned char**>(out), size, kHttp2, 3, offered,
                               offered_size) == OPENSSL_NPN_NEGOTIATED
             ? SSL_TLSEXT_ERR_OK
             : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

// One client, served on one thread.
class FakeHttp2Connection {
 public:
  FakeHttp2Connection(FakeHttp2Server& server, int socket)
      : server_(server), socket_(socket), ssl_(SSL_new(server.context_.get()), SSL_free) {
    SSL_set_fd(ssl_.get(), socket);
  }

  void Serve() {
    if (SSL_accept(ssl_.get()) != 1) {
      return;
    }
    if (!server_.http2_) {
      ServeHttp1();
      return;
    }
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_server_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
    char bytes[16384];
    while (Send() && !cut_) {
      if (deaf_) {  // until the server is destroyed, or the client gives up
        while (recv(socket_, bytes, sizeof bytes, 0) > 0) {
        }
        break;
      }
      const int got = SSL_read(ssl_.get(), bytes, sizeof bytes);
      if (got <= 0 || nghttp2_session_mem_recv(session_, reinterpret_cast<uint8_t*>(bytes),
                                               static_cast<size_t>(got)) < 0) {
        break;
      }
    }
    nghttp2_session_del(session_);
  }

 private:
  friend class FakeHttp2Stream;

  void ServeHttp1() {
    std::string seen;
    char bytes[4096];
    for (int got = 0; (got = SSL_read(ssl_.get(), bytes, sizeof bytes)) > 0;) {
      seen.append(bytes, static_cast<size_t>(got));
      if (seen.ends_with("\r\n\r\n")) {  // requests without a body only
        const std::string answer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
            std::to_string(server_.http1_body_.size()) + "\r\n\r\n" + server_.http1_body_;
        SSL_write(ssl_.get(), answer.data(), static_cast<int>(answer.size()));
        seen.clear();
      }
    }
  }

  bool Send() {
    for (;;) {
      const uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      if (size == 0) {
        NoteWhetherHeldBack();
        return true;
      }
      if (size < 0 || SSL_write(ssl_.get(), bytes, static_cast<int>(size)) <= 0) {
        return false;
      }
    }
  }

  // Nothing can be sent although a body is not through.
  void NoteWhetherHeldBack() {
    const std::lock_guard lock(server_.mutex_);
    server_.held_back_ = std::any_of(streams_.begin(), streams_.end(), [](const auto& entry) {
      return entry.second.sent_ < entry.second.reply_.size();
    });
    server_.changed_.notify_all();
  }

  FakeHttp2Stream& Stream(int32_t id) {
    FakeHttp2Stream& stream = streams_[id];
    stream.session_ = session_;
    stream.id_ = id;
    stream.connection_ = this;
    return stream;
  }

  static int OnHeader(nghttp2_session* /*session*/, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t /*flags*/,
                      void* self) {
    auto& stream = static_cast<FakeHttp2Connection*>(self)->Stream(frame->hd.stream_id);
    const std::string key(reinterpret_cast<const char*>(name), name_size);
    std::string text(reinterpret_cast<const char*>(value), value_size);
    (key == ":method" ? stream.method
     : key == ":path" ? stream.path
                      : stream.headers[key]) = std::move(text);
    return 0;
  }
  static int OnData(nghttp2_session* /*session*/, uint8_t /*flags*/, int32_t id,
                    const uint8_t* data, size_t size, void* self) {
    static_cast<FakeHttp2Connection*>(self)->Stream(id).body.append(
        reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int OnFrame(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* self) {
    auto* connection = static_cast<FakeHttp2Connection*>(self);
    const bool request = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (request && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      connection->server_.handler_(connection->Stream(frame->hd.stream_id));
    }
    return 0;
  }
  static ssize_t ReadReply(nghttp2_session* /*session*/, int32_t /*id*/, uint8_t* into, size_t size,
                           uint32_t* flags, nghttp2_data_source* source, void* /*self*/) {
    auto& stream = *static_cast<FakeHttp2Stream*>(source->ptr);
    const size_t take = std::min(size, stream.reply_.size() - stream.sent_);
    std::copy_n(stream.reply_.data() + stream.sent_, take, into);
    stream.sent_ += take;
    stream.connection_->server_.bytes_sent_ += take;
    if (stream.sent_ == stream.reply_.size()) {
      if (!stream.ends_ && take == 0) {
        return NGHTTP2_ERR_DEFERRED;
      }
      if (stream.ends_) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
      }
    }
    return static_cast<ssize_t>(take);
  }

  FakeHttp2Server& server_;
  const int socket_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  nghttp2_session* session_ = nullptr;
  std::map<int32_t, FakeHttp2Stream> streams_;
  bool cut_ = false;
  bool deaf_ = false;
};

void FakeHttp2Stream::Reply(int status, std::string text,
                            const std::map<std::string, std::string>& more) {
  reply_ = std::move(text);
  const std::string code = std::to_string(status);
  const std::string status_name = ":status";
  std::vector<nghttp2_nv> head = {Field(status_name, code)};
  for (const auto& [name, value] : more) {
    head.push_back(Field(name, value));
  }
  nghttp2_data_provider provider{};
  provider.source.ptr = this;
  provider.read_callback = FakeHttp2Connection::ReadReply;
  nghttp2_submit_response(session_, id_, head.data(), head.size(), &provider);
}

void FakeHttp2Stream::ReplyWithoutEnd(int status, std::string text) {
  ends_ = false;
  Reply(status, std::move(text));
}

void FakeHttp2Stream::Reset(uint32_t code) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id_, code);
}

void FakeHttp2Stream::GoAway() {
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, id_, NGHTTP2_NO_ERROR, nullptr, 0);
}

void FakeHttp2Stream::CutConnection() { connection_->cut_ = true; }
void FakeHttp2Stream::StopReading() { connection_->deaf_ = true; }

FakeHttp2Server::FakeHttp2Server(Handler handler, bool http2, std::string http1_body)
    : handler_(std::move(handler)),
      http2_(http2),
      http1_body_(std::move(http1_body)),
      context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free) {
  // OpenSSL writes to a client that has gone, without MSG_NOSIGNAL.
  std::signal(SIGPIPE, SIG_IGN);
  MakeCertificate();
  if (http2_) {
    SSL_CTX_set_alpn_select_cb(context_.get(), ChooseHttp2, nullptr);
  }
  listener_ = std::make_unique<FakeListener>(
      [this](int socket) { FakeHttp2Connection(*this, socket).Serve(); });
}

bool FakeHttp2Server::WaitUntilHeldBack(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, at_most, [this] { return held_back_; });
}

// Its own authority, good for 127.0.0.1.
void FakeHttp2Server::MakeCertificate() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
  X509* certificate = made.get();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 24L * 3600);
  X509_set_pubkey(certificate, key.get());
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("fake"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> addresses(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1"),
      X509_EXTENSION_free);
  X509_add_ext(certificate, addresses.get(), -1);
  X509_sign(certificate, key.get(), EVP_sha256());
  SSL_CTX_use_certificate(context_.get(), certificate);
  SSL_CTX_use_PrivateKey(context_.get(), key.get());
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(out.get(), certificate);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  certificate_.assign(text, static_cast<size_t>(size));
}

}  // namespace ddp::kube
