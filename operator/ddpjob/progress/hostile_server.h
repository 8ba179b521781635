// Test helper: what a hostile or broken pod may answer to a pull.
#pragma once

#include <string>
#include <vector>

#include "operator/kube/fake_server.h"

namespace ddp::job {

inline int PortOf(const kube::FakeServer& server) {
  return std::stoi(server.url().substr(server.url().rfind(':') + 1));
}

// Each does its worst until the peer goes.
struct Hostile {
  const char* what;
  const char* says;  // what the pull is to report
  void (*act)(kube::FakeConnection&);
};

inline const std::vector<Hostile>& HostileAnswers() {
  static const std::vector<Hostile> rows = {
      {"silence", "no complete answer within 2 s",
       [](kube::FakeConnection& c) { c.WaitForPeerToClose(); }},
      {"a slow drip", "no complete answer within 2 s",
       [](kube::FakeConnection& c) {
         c.Write("HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n");
         while (c.WaitForPeer(std::chrono::milliseconds(100))) {
           c.Write("x");
         }
       }},
      {"a body without end", "the answer is larger than 64 KiB",
       [](kube::FakeConnection& c) {
         c.Write("HTTP/1.1 200 OK\r\n\r\n");
         while (c.Write(std::string(16'384, 'x'))) {
         }
       }},
      {"chunks without end", "the answer is larger than 64 KiB",
       [](kube::FakeConnection& c) {
         c.BeginChunked();
         while (c.Chunk(std::string(16'384, 'x'))) {
         }
       }},
      {"a huge promise", "the answer is larger than 64 KiB",
       [](kube::FakeConnection& c) {
         c.Write("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n");
         c.WaitForPeerToClose();
       }},
      {"headers without end", "the answer's headers are too large",
       [](kube::FakeConnection& c) {
         c.Write("HTTP/1.1 200 OK\r\n");
         while (c.Write("X-More: " + std::string(1'000, 'y') + "\r\n")) {
         }
       }},
      {"a redirect", "the answer has status 307",
       [](kube::FakeConnection& c) {
         c.Reply(307, "", "Location: http://169.254.169.254/latest/meta-data\r\n");
         c.WaitForPeerToClose();
       }},
      {"an error", "the answer has status 500",
       [](kube::FakeConnection& c) {
         c.Reply(500, R"({"step":1})");
         c.WaitForPeerToClose();
       }},
      {"no HTTP", "the answer is not HTTP",
       [](kube::FakeConnection& c) {
         c.Write("SSH-2.0-OpenSSH_9.2\r\n\r\n");
         c.WaitForPeerToClose();
       }},
      {"an end in the middle", "the connection was closed before the answer was complete",
       [](kube::FakeConnection& c) {
         c.Write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"step\"");
       }},
  };
  return rows;
}

}  // namespace ddp::job
