#include "tests/integration/fault_proxy.h"

#include <fmt/format.h>

#include "operator/json/json.h"

namespace ddp::integration {
namespace {

using kube::FakeConnection;
using kube::HttpRequest;

constexpr std::chrono::milliseconds kLateBy{300};
constexpr std::chrono::milliseconds kSlowBy{500};

std::string Status(int code, const char* reason) {
  return json::Dump({{"kind", "Status"},
                     {"apiVersion", "v1"},
                     {"status", "Failure"},
                     {"reason", reason},
                     {"code", code},
                     {"message", "made up by the test's proxy"}});
}

std::string Header(const kube::SeenRequest& request, const char* name) {
  const auto it = request.headers.find(name);
  return it == request.headers.end() ? "" : it->second;
}

HttpRequest ToForward(const kube::SeenRequest& seen) {
  HttpRequest request;
  request.method = seen.method;
  request.target = seen.target;
  request.body = seen.body;
  request.content_type = Header(seen, "Content-Type");
  request.accept = Header(seen, "Accept");
  const std::string authorization = Header(seen, "Authorization");
  request.bearer = authorization.substr(std::min(authorization.size(), std::strlen("Bearer ")));
  return request;
}

}  // namespace

FaultProxy::FaultProxy(std::shared_ptr<kube::HttpTransport> api_server, Decide decide)
    : api_server_(std::move(api_server)),
      decide_(std::move(decide)),
      server_(std::make_unique<kube::FakeServer>(
          [this](FakeConnection& connection) { Serve(connection); })) {}

FaultProxy::~FaultProxy() {
  stop_.request_stop();  // of the watches that are forwarded: their threads end then
  server_.reset();
}

void FaultProxy::Serve(FakeConnection& connection) {
  while (auto seen = connection.ReadRequest()) {
    const HttpRequest request = ToForward(*seen);
    const Fault fault = decide_(request.method, request.target);
    faults_ += fault != Fault::kNone ? 1 : 0;
    const bool watch = request.target.find("watch=true") != std::string::npos;
    const bool goes_on =
        watch && (fault == Fault::kNone || fault == Fault::kCut || fault == Fault::kSlow)
            ? Watch(connection, request, fault)
            : Answer(connection, request, fault);
    if (!goes_on) {
      return;
    }
  }
}

bool FaultProxy::Answer(FakeConnection& connection, const HttpRequest& request, Fault fault) {
  switch (fault) {
    case Fault::kServerError:
      connection.Reply(500, Status(500, "InternalError"));
      return true;
    case Fault::kConflict:
      connection.Reply(409, Status(409, "Conflict"));
      return true;
    case Fault::kTooMany:
      connection.Reply(429, Status(429, "TooManyRequests"), "Retry-After: 1\r\n");
      return true;
    case Fault::kRefuseList:
      connection.Reply(422, Status(422, "Invalid"));
      return true;
    case Fault::kLostRequest:
      return false;
    case Fault::kTwice:
      (void)api_server_->Send(request, stop_.get_token());
      break;
    case Fault::kLate:
      std::this_thread::sleep_for(kLateBy);
      break;
    case Fault::kNone:
    case Fault::kLostReply:
    case Fault::kCut:
    case Fault::kSlow:
      break;
  }
  const auto answer = api_server_->Send(request, stop_.get_token());
  if (!answer || fault == Fault::kLostReply) {
    return false;
  }
  connection.Reply(
      answer->status, answer->body,
      answer->retry_after ? fmt::format("Retry-After: {}\r\n", answer->retry_after->count()) : "");
  return true;
}

bool FaultProxy::Watch(FakeConnection& connection, const HttpRequest& request, Fault fault) {
  constexpr int kPiecesBeforeCut = 3;
  bool begun = false;
  int pieces = 0;
  const auto answer = api_server_->Stream(request, stop_.get_token(), [&](std::string_view piece) {
    if (!std::exchange(begun, true)) {
      connection.BeginChunked();
    }
    if (fault == Fault::kSlow) {
      std::this_thread::sleep_for(kSlowBy);
    }
    if (fault == Fault::kCut && ++pieces == kPiecesBeforeCut) {
      connection.Chunk(std::string(piece.substr(0, piece.size() / 2)));
      return false;
    }
    return connection.Chunk(std::string(piece));
  });
  if (answer && !begun && (answer->status < 200 || answer->status >= 300)) {
    connection.Reply(answer->status, answer->body);
    return true;
  }
  if (answer && pieces < kPiecesBeforeCut) {
    if (!begun) {
      connection.BeginChunked();
    }
    connection.EndChunked();
    return true;
  }
  return false;
}

}  // namespace ddp::integration
