#include "operator/controller/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "operator/controller/pages.h"
#include "operator/kube/transport.h"

namespace ddp::controller {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

int Connect(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return connection;
}

std::string ReadAll(int connection) {
  std::string answer;
  char bytes[4096];
  for (ssize_t n = 0; (n = recv(connection, bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<size_t>(n));
  }
  return answer;
}

std::string Ask(int port, const std::string& path, const std::string& headers = "",
                const std::string& method = "GET") {
  const int connection = Connect(port);
  const std::string request = method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
  send(connection, request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer = ReadAll(connection);
  close(connection);
  return answer;
}

TEST(HttpServer, AnswersAndSaysWhatIsWrong) {
  Metrics metrics;
  metrics.AddCounter("c_total", "help");
  std::atomic<bool> well{true};
  const auto check = [&] { return well ? std::string() : std::string("lease is late"); };
  auto server = HttpServer::Start({}, Serve({check, check, &metrics, nullptr}));
  ASSERT_TRUE(server) << server.error().message;
  const int port = (*server)->port();
  EXPECT_GT(port, 0);
  EXPECT_THAT(Ask(port, "/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(Ask(port, "/readyz?verbose"), HasSubstr("200 OK"));
  EXPECT_THAT(Ask(port, "/metrics"), HasSubstr("c_total 0"));
  EXPECT_THAT(Ask(port, "/other"), HasSubstr(" 404 "));
  EXPECT_THAT(Ask(port, "/healthz", "", "POST"), HasSubstr(" 405 "));
  EXPECT_THAT(Ask(port, "/healthz", "X: " + std::string(100'000, 'x') + "\r\n"), "");
  well = false;
  EXPECT_THAT(Ask(port, "/readyz"), HasSubstr("503"));
  EXPECT_THAT(Ask(port, "/healthz"), HasSubstr("lease is late"));

  const auto second = HttpServer::Start({port, std::nullopt, "--health-port"}, Serve({}));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("--health-port"));
}

TEST(HttpServer, IdleConnectionsKeepNobodyOut) {
  auto server = HttpServer::Start({}, Serve({[] { return ""; }, nullptr, nullptr, nullptr}));
  ASSERT_TRUE(server);
  std::vector<int> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(Connect((*server)->port()));
  }
  EXPECT_THAT(Ask((*server)->port(), "/healthz"), HasSubstr("200 OK"));
  EXPECT_EQ(ReadAll(idle.front()), "");  // dropped for the others
  for (const int connection : idle) {
    close(connection);
  }
}

TEST(Pages, MetricsWantTheTokenWhereThereIsOne) {
  Metrics metrics;
  metrics.AddCounter("c_total", "help");
  std::string token = "s3cret";
  auto server = HttpServer::Start(
      {}, Serve({[] { return ""; }, nullptr, &metrics, [&token] { return token; }}));
  ASSERT_TRUE(server);
  const int port = (*server)->port();
  EXPECT_THAT(Ask(port, "/metrics"), HasSubstr("WWW-Authenticate: Bearer"));
  for (const char* wrong :
       {"Bearer s3cre", "Bearer s3cret2", "Bearer ", "Basic s3cret", "s3cret"}) {
    const std::string answer =
        Ask(port, "/metrics", std::string("Authorization: ") + wrong + "\r\n");
    EXPECT_THAT(answer, HasSubstr(" 401 ")) << wrong;
    EXPECT_EQ(answer.find("c_total"), std::string::npos) << wrong;
  }
  EXPECT_THAT(Ask(port, "/metrics", "Authorization: Bearer s3cret\r\n"), HasSubstr("c_total 0"));
  EXPECT_THAT(Ask(port, "/healthz"), HasSubstr("200 OK"));
}

// A key and a certificate for localhost, in two files.
class TlsTest : public ::testing::Test {
 public:
  TlsTest(const TlsTest&) = delete;
  TlsTest& operator=(const TlsTest&) = delete;
  ~TlsTest() override { fs::remove_all(folder_); }

 protected:
  TlsTest() {
    std::string pattern = ::testing::TempDir() + "ddp-tls.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  HttpServer::Tls Files() const { return {folder_ / "tls.crt", folder_ / "tls.key"}; }

  void MakeCertificate() const {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION* names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
    X509_add_ext(certificate, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(certificate, key, EVP_sha256());
    BIO* out = BIO_new_file(Files().certificate_file.c_str(), "w");
    PEM_write_bio_X509(out, certificate);
    BIO_free(out);
    out = BIO_new_file(Files().key_file.c_str(), "w");
    PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
    BIO_free(out);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  // A fresh client that trusts this certificate alone.
  static base::Result<kube::HttpResponse> AskTls(int port, const std::string& ca) {
    kube::TransportOptions options;
    options.server = "https://localhost:" + std::to_string(port);
    options.ca.text = ca;
    auto transport = kube::MakeHttpTransport(options);
    if (!transport) {
      return transport.error();
    }
    kube::HttpRequest request;
    request.method = "GET";
    request.target = "/metrics";
    request.bearer = "token";
    return (*transport)->Send(request, {});
  }

  fs::path folder_;
  mutable long serial_ = 0;
};

TEST_F(TlsTest, ServesMetricsAndTakesARotatedCertificate) {
  MakeCertificate();
  Metrics metrics;
  metrics.AddCounter("c_total", "help");
  auto server =
      HttpServer::Start({0, Files(), "--metrics-port"},
                        Serve({nullptr, nullptr, &metrics, [] { return std::string("token"); }}));
  ASSERT_TRUE(server) << server.error().message;
  const int port = (*server)->port();
  const std::string first = Read(Files().certificate_file);
  const auto left = *(*server)->certificate_expiry() - std::chrono::system_clock::now();
  EXPECT_GT(left, std::chrono::minutes(58));
  EXPECT_LT(left, std::chrono::minutes(61));
  auto answer = AskTls(port, first);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200);
  EXPECT_THAT(answer->body, HasSubstr("c_total 0"));
  EXPECT_EQ(Ask(port, "/metrics"), "") << "plain text is no TLS";

  MakeCertificate();
  for (const std::string& file : {Files().certificate_file, Files().key_file}) {
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(2));
  }
  EXPECT_FALSE(AskTls(port, first));
  answer = AskTls(port, Read(Files().certificate_file));
  EXPECT_TRUE(answer) << answer.error().message;

  // A rotation that is half done: the last good certificate stays in use.
  const std::string good = Read(Files().certificate_file);
  std::ofstream(Files().certificate_file) << "not a certificate";
  fs::last_write_time(Files().certificate_file, fs::file_time_type::clock::now());
  EXPECT_TRUE(AskTls(port, good));
}

TEST_F(TlsTest, SaysWhichCertificateCannotBeUsed) {
  const auto missing = HttpServer::Start({0, Files(), "--metrics-port"}, Serve({}));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr(Files().certificate_file));
  MakeCertificate();
  const std::string key = Read(Files().key_file);
  MakeCertificate();
  std::ofstream(Files().key_file) << key;
  EXPECT_FALSE(HttpServer::Start({0, Files(), "--metrics-port"}, Serve({})));
}

}  // namespace
}  // namespace ddp::controller
