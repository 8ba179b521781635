// Test helper: a scripted HTTP/1.1 server on a loopback socket, for the faults that a real API
// server cannot be made to show (a connection cut in mid-line, a redirect, silence). The handler
// runs on a thread of its own for each connection. Destroying the server ends all of them.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "operator/kube/fake_listener.h"

namespace ddp::kube {

struct SeenRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;
  std::string body;
};

class FakeConnection {
 public:
  explicit FakeConnection(int socket) : socket_(socket) {}

  // Nothing: the peer has closed.
  std::optional<SeenRequest> ReadRequest() {
    while (buffer_.find("\r\n\r\n") == std::string::npos) {
      if (!Fill()) {
        return std::nullopt;
      }
    }
    SeenRequest request;
    const size_t head_end = buffer_.find("\r\n\r\n");
    const std::string head = buffer_.substr(0, head_end);
    buffer_.erase(0, head_end + 4);
    size_t at = head.find("\r\n");
    const std::string first = head.substr(0, at);
    const size_t space = first.find(' ');
    request.method = first.substr(0, space);
    request.target = first.substr(space + 1, first.rfind(' ') - space - 1);
    while (at != std::string::npos) {
      const size_t end = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, end == std::string::npos ? end : end - at - 2);
      const size_t colon = line.find(':');
      const size_t value = line.find_first_not_of(' ', colon + 1);
      request.headers[line.substr(0, colon)] = value == std::string::npos ? "" : line.substr(value);
      at = end;
    }
    const auto length = request.headers.find("Content-Length");
    const size_t size = length == request.headers.end() ? 0 : std::stoul(length->second);
    while (buffer_.size() < size) {
      if (!Fill()) {
        return std::nullopt;
      }
    }
    request.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return request;
  }

  // False: the peer has gone.
  bool Write(const std::string& text) {
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t n = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) {
        return false;
      }
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  void Reply(int status, const std::string& body, const std::string& headers = "") {
    Write("HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Type: application/json\r\n" +
          headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  void BeginChunked() {
    Write(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  bool Chunk(const std::string& data) {
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    return Write(size + data + "\r\n");
  }
  void EndChunked() { Write("0\r\n\r\n"); }
  // False: the peer has gone, or the server ends. True: it has not after that time.
  bool WaitForPeer(std::chrono::milliseconds at_most) {
    pollfd wait{socket_, POLLIN | POLLRDHUP, 0};
    return poll(&wait, 1, static_cast<int>(at_most.count())) == 0 || Fill();
  }
  // The peer's end, or the end of the server: returns then.
  void WaitForPeerToClose() {
    while (Fill()) {
    }
  }

 private:
  bool Fill() {
    char bytes[4096];
    const ssize_t n = recv(socket_, bytes, sizeof bytes, 0);
    if (n <= 0) {
      return false;
    }
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }

  const int socket_;
  std::string buffer_;
};

class FakeServer {
 public:
  explicit FakeServer(std::function<void(FakeConnection&)> handler)
      : listener_([handler = std::move(handler)](int socket) {
          FakeConnection connection(socket);
          handler(connection);
        }) {}

  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_.port()); }
  int connections() const { return listener_.connections(); }

 private:
  FakeListener listener_;
};

}  // namespace ddp::kube
