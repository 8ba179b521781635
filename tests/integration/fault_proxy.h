// A server between an operator and the API server that does to each request what a test decides:
// refuses it, loses it or its answer, sends it twice, cuts or delays a watch. It speaks plain
// HTTP/1.1 to the operator (which then uses its transport for that) and HTTP/2 to the API server,
// with the operator's own token. Faults of the connection itself are TcpProxy's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/kube/fake_server.h"
#include "operator/kube/transport.h"

namespace ddp::integration {

enum class Fault {
  kNone,
  kServerError,  // 500
  kConflict,     // 409, as if somebody had written in between
  kTooMany,      // 429 with Retry-After
  kLostRequest,  // the connection ends before the request gets through
  kLostReply,    // … after it did
  kTwice,        // the server gets it twice, the operator the second answer
  kLate,         // after 0.3 s
  kCut,          // a watch: ends in the middle of a line, after some lines
  kSlow,         // a watch: each piece comes 0.5 s late
  kRefuseList,   // a watch that asks for initial events: 422, as an older server
};

class FaultProxy {
 public:
  // Called on several threads.
  using Decide = std::function<Fault(const std::string& method, const std::string& target)>;

  FaultProxy(std::shared_ptr<kube::HttpTransport> api_server, Decide decide);
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;
  ~FaultProxy();

  std::string url() const { return server_->url(); }
  int faults() const { return faults_; }

 private:
  void Serve(kube::FakeConnection& connection);
  // False: the connection is to be closed.
  bool Answer(kube::FakeConnection& connection, const kube::HttpRequest& request, Fault fault);
  bool Watch(kube::FakeConnection& connection, const kube::HttpRequest& request, Fault fault);

  const std::shared_ptr<kube::HttpTransport> api_server_;
  const Decide decide_;
  std::stop_source stop_;
  std::atomic<int> faults_{0};
  std::unique_ptr<kube::FakeServer> server_;
};

}  // namespace ddp::integration
