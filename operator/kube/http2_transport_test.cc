// The HTTP/2 transport against a server on a real socket that does what API servers rarely do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <set>

#include "operator/kube/fake_http2_server.h"
#include "operator/kube/tls_connection.h"
#include "operator/kube/transport.h"

namespace ddp::kube {
namespace {

using base::ErrorCode;
using base::Result;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TransportOptions OptionsFor(const FakeHttp2Server& server) {
  TransportOptions options;
  options.server = server.url();
  options.ca.text = server.certificate();
  options.user_agent = "test/1";
  return options;
}

std::unique_ptr<HttpTransport> Connect(const TransportOptions& options) {
  auto made = MakeHttpTransport(options);
  DDP_CHECK(made.has_value(), "no transport");
  return *std::move(made);
}

HttpRequest Get(const std::string& target, milliseconds deadline = seconds(20)) {
  HttpRequest request;
  request.method = "GET";
  request.target = target;
  request.deadline = deadline;
  return request;
}

void Echo(FakeHttp2Stream& stream) { stream.Reply(200, stream.path + stream.body); }

TEST(Http2Transport, SendsARequestAsItIs) {
  FakeHttp2Stream seen;
  FakeHttp2Server server([&](FakeHttp2Stream& stream) {
    seen.method = stream.method;
    seen.path = stream.path;
    seen.headers = stream.headers;
    seen.body = stream.body;
    stream.Reply(429, "slow down", {{"retry-after", "7"}});
  });
  TransportOptions options = OptionsFor(server);
  options.server += "/prefix/";
  HttpRequest request = Get("/api?x=1");
  request.method = "POST";
  request.body = std::string(100'000, 'b');
  request.content_type = "application/json";
  request.bearer = "secret";
  const auto answer = Connect(options)->Send(request, {});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 429);
  EXPECT_EQ(answer->body, "slow down");
  EXPECT_EQ(answer->retry_after, seconds(7));
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.path, "/prefix/api?x=1");
  EXPECT_EQ(seen.body, request.body);
  EXPECT_EQ(seen.headers["authorization"], "Bearer secret");
  EXPECT_EQ(seen.headers["content-type"], "application/json");
  EXPECT_EQ(seen.headers["accept"], "application/json");
  EXPECT_EQ(seen.headers["user-agent"], "test/1");
}

TEST(Http2Transport, ManyRequestsAndThreadsShareOneConnection) {
  FakeHttp2Server server(Echo);
  auto transport = Connect(OptionsFor(server));
  std::vector<std::future<void>> threads;
  for (int t = 0; t < 4; ++t) {
    threads.push_back(std::async(std::launch::async, [&, t] {
      std::set<size_t> answered;
      transport->SendMany(
          150, [t](size_t i) { return Get("/" + std::to_string(t) + "/" + std::to_string(i)); }, 16,
          {},
          [&](size_t i, const Result<HttpResponse>& answer) {
            EXPECT_TRUE(answer &&
                        answer->body == "/" + std::to_string(t) + "/" + std::to_string(i));
            EXPECT_TRUE(answered.insert(i).second);
            return true;
          });
      EXPECT_EQ(answered.size(), 150U);
    }));
  }
  threads.clear();
  EXPECT_EQ(server.connections(), 1);
}

TEST(Http2Transport, BeginsNoMoreOnceAnAnswerWasBad) {
  std::atomic<int> seen{0};
  FakeHttp2Server server(
      [&](FakeHttp2Stream& stream) { stream.Reply(++seen == 3 ? 500 : 200, ""); });
  auto transport = Connect(OptionsFor(server));
  int told = 0;
  transport->SendMany(
      100, [](size_t) { return Get("/"); }, 1, {},
      [&](size_t, const Result<HttpResponse>& answer) {
        ++told;
        return answer && answer->status == 200;
      });
  EXPECT_EQ(told, 3);
  EXPECT_EQ(seen, 3);
}

TEST(Http2Transport, AServerIsHeldBackWhenItsStreamIsNotRead) {
  const size_t size = size_t{12} << 20U;
  FakeHttp2Server server(
      [&](FakeHttp2Stream& stream) { stream.Reply(200, std::string(size, 'x')); });
  auto transport = Connect(OptionsFor(server));
  size_t got = 0;
  bool first = true;
  const auto answer = transport->Stream(Get("/"), {}, [&](std::string_view piece) {
    if (std::exchange(first, false)) {
      // No more comes while we are busy.
      EXPECT_TRUE(server.WaitUntilHeldBack(std::chrono::seconds(10)));
      EXPECT_LE(server.bytes_sent(), (size_t{1} << 20U) + piece.size());
    }
    got += piece.size();
    return true;
  });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(got, size);
}

TEST(Http2Transport, AStreamEndsEarlyByItsReaderAndByAStop) {
  FakeHttp2Server server([](FakeHttp2Stream& stream) { stream.ReplyWithoutEnd(200, "line\n"); });
  auto transport = Connect(OptionsFor(server));
  EXPECT_TRUE(transport->Stream(Get("/"), {}, [](std::string_view) { return false; }));
  std::stop_source stop;
  const auto stopped = transport->Stream(Get("/"), stop.get_token(), [&](std::string_view) {
    stop.request_stop();
    return true;
  });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(server.connections(), 1) << "ending a stream must not cost the connection";
}

TEST(Http2Transport, ASilentStreamAndALateAnswerAreDeadlines) {
  FakeHttp2Server server([](FakeHttp2Stream& stream) {
    if (stream.path == "/stream") {
      stream.ReplyWithoutEnd(200, "line\n");
    }
  });
  TransportOptions options = OptionsFor(server);
  options.stream_idle_timeout = milliseconds(100);
  auto transport = Connect(options);
  const auto late = transport->Send(Get("/", milliseconds(100)), {});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kDeadline);
  const auto silent = transport->Stream(Get("/stream"), {}, [](std::string_view) { return true; });
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kDeadline);
  EXPECT_EQ(server.connections(), 1);
}

TEST(Http2Transport, AConnectionThatIsDeadIsFoundOut) {
  std::atomic<bool> deaf{true};
  FakeHttp2Server server([&](FakeHttp2Stream& stream) {
    if (deaf.exchange(false)) {
      stream.StopReading();
    } else {
      stream.Reply(200, "alive");
    }
  });
  TransportOptions options = OptionsFor(server);
  options.ping_after = milliseconds(100);
  options.ping_timeout = milliseconds(100);
  auto transport = Connect(options);
  const auto dead = transport->Send(Get("/"), {});
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(dead.error().message, HasSubstr("dead"));
  EXPECT_TRUE(transport->Send(Get("/"), {}));
  EXPECT_EQ(server.connections(), 2);
}

TEST(Http2Transport, AServerThatSaysGoodbyeLosesNoRequest) {
  std::atomic<int> count{0};
  FakeHttp2Server server([&](FakeHttp2Stream& stream) {
    if (++count % 10 == 0) {
      stream.GoAway();
    }
    Echo(stream);
  });
  auto transport = Connect(OptionsFor(server));
  size_t good = 0;
  transport->SendMany(
      100, [](size_t i) { return Get("/" + std::to_string(i)); }, 8, {},
      [&](size_t, const Result<HttpResponse>& answer) {
        EXPECT_TRUE(answer) << answer.error().message;
        good += answer ? 1 : 0;
        return true;
      });
  EXPECT_EQ(good, 100U);
  EXPECT_GE(server.connections(), 5);
}

TEST(Http2Transport, ARefusedStreamIsSentAgainAndAResetOneIsNot) {
  std::atomic<int> count{0};
  FakeHttp2Server server([&](FakeHttp2Stream& stream) {
    switch (++count) {
      case 1:
        return stream.Reset(NGHTTP2_REFUSED_STREAM);
      case 3:
        return stream.Reset(NGHTTP2_INTERNAL_ERROR);
      default:
        return stream.Reply(200, "");
    }
  });
  auto transport = Connect(OptionsFor(server));
  EXPECT_TRUE(transport->Send(Get("/"), {}));
  const auto reset = transport->Send(Get("/"), {});
  ASSERT_FALSE(reset);
  EXPECT_EQ(reset.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(count, 3);
}

TEST(Http2Transport, ACutConnectionIsUnavailableAndReplaced) {
  std::atomic<int> count{0};
  FakeHttp2Server server([&](FakeHttp2Stream& stream) {
    if (++count == 1) {
      stream.ReplyWithoutEnd(200, "half a li");
      stream.CutConnection();
    } else {
      Echo(stream);
    }
  });
  auto transport = Connect(OptionsFor(server));
  const auto cut = transport->Stream(Get("/"), {}, [](std::string_view) { return true; });
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(transport->Send(Get("/"), {}));
}

TEST(Http2Transport, AnAnswerWithoutBoundIsRefused) {
  FakeHttp2Server server(
      [](FakeHttp2Stream& stream) { stream.Reply(200, std::string(100'000, 'x')); });
  TransportOptions options = OptionsFor(server);
  options.max_body_bytes = 50'000;
  const auto answer = Connect(options)->Send(Get("/"), {});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kInternal);
}

TEST(Http2Transport, TrustsOnlyTheGivenAuthorityAndTheRightName) {
  FakeHttp2Server server(Echo);
  const FakeHttp2Server other(Echo);
  TransportOptions options = OptionsFor(server);
  options.ca.text = other.certificate();
  const auto foreign = Connect(options)->Send(Get("/"), {});
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().message, HasSubstr("certificate"));
  options = OptionsFor(server);
  options.server.replace(options.server.find("127.0.0.1"), 9, "localhost");
  const auto misnamed = Connect(options)->Send(Get("/"), {});
  ASSERT_FALSE(misnamed);
  EXPECT_THAT(misnamed.error().message, HasSubstr("certificate"));
}

TEST(Http2Transport, AServerWithoutHttp2IsSpokenToByHttp1) {
  FakeHttp2Server server(Echo, false, "by http/1.1");
  auto transport = Connect(OptionsFor(server));
  for (int i = 0; i < 2; ++i) {
    const auto answer = transport->Send(Get("/"), {});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, "by http/1.1");
  }
}

TEST(Http2Transport, NobodyListensIsUnavailableForAllThatWait) {
  std::string url;
  std::string certificate;
  {
    const FakeHttp2Server gone(Echo);
    url = gone.url();
    certificate = gone.certificate();
  }
  TransportOptions options;
  options.server = url;
  options.ca.text = certificate;
  auto transport = Connect(options);
  std::vector<std::future<void>> threads;
  for (int t = 0; t < 4; ++t) {
    threads.push_back(std::async(std::launch::async, [&] {
      const auto answer = transport->Send(Get("/"), {});
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable) << answer.error().message;
    }));
  }
}

TEST(ServerAddress, IsTakenApart) {
  const ServerAddress plain = ParseServer("https://host");
  EXPECT_EQ(plain.host + "|" + plain.port + "|" + plain.prefix, "host|443|");
  const ServerAddress full = ParseServer("https://[fd00::1]:6443/a/b/");
  EXPECT_EQ(full.host + "|" + full.port + "|" + full.prefix, "fd00::1|6443|/a/b");
  EXPECT_EQ(full.authority, "[fd00::1]:6443");
  EXPECT_EQ(ParseServer("https://[::1]").host, "::1");
}

}  // namespace
}  // namespace ddp::kube
