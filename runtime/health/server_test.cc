#include "runtime/health/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace ddp::rt::health {
namespace {

std::string Request(int port, const std::string& line) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string text = line + " HTTP/1.0\r\n\r\n";
    EXPECT_EQ(send(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    char buffer[4096];
    for (ssize_t got = 0; (got = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  return answer;
}

TEST(Server, AnswersItsRoutes) {
  const auto server = Server::Start(
      0, {{"/healthz", [] { return Answer{.body = "ok\n"}; }},
          {"/readyz", [] { return Answer{.status = 503, .body = "starting\n"}; }},
          {"/broken", []() -> Answer { throw std::runtime_error("no such thing"); }}});
  ASSERT_TRUE(server);
  EXPECT_GT(server->port(), 0);
  EXPECT_TRUE(Request(server->port(), "GET /healthz").starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(Request(server->port(), "GET /healthz").ends_with("\r\n\r\nok\n"));
  EXPECT_TRUE(Request(server->port(), "GET /readyz").starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(Request(server->port(), "GET /broken").ends_with("no such thing\n"));
  for (const char* line : {"GET /", "GET /healthz/x", "GET /etc/passwd", "POST /nothing"}) {
    const std::string answer = Request(server->port(), line);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.0 4"))
        << line << answer;
  }
}

TEST(Server, APortInUseIsNotFatal) {
  const auto first = Server::Start(0, {});
  ASSERT_TRUE(first);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(Server::Start(first->port(), {}));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("progress port " + std::to_string(first->port()) + " can't be used"),
            std::string::npos)
      << log;
}

}  // namespace
}  // namespace ddp::rt::health
