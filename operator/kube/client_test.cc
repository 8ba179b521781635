// Client and transport against a scripted server on a real socket.
#include "operator/kube/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "operator/kube/fake_server.h"
#include "operator/kube/read_only.h"

namespace ddp::kube {
namespace {

using base::ErrorCode;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

const Resource kPods{"", "v1", "pods", "Pod"};
const Resource kJobs{"ddpjob.dev", "v1alpha1", "ddpjobs", "DDPJob"};

std::shared_ptr<HttpTransport> Transport(const std::string& url,
                                         milliseconds stream_idle = milliseconds(20'000)) {
  TransportOptions options;
  options.server = url;
  options.user_agent = "test/1";
  options.stream_idle_timeout = stream_idle;
  auto transport = MakeHttpTransport(options);
  DDP_CHECK(transport.has_value(), "no transport");
  return *std::move(transport);
}

// Answers every request with what `reply` says, and remembers it.
class Recorder {
 public:
  using Reply = std::function<void(FakeConnection&, const SeenRequest&)>;
  explicit Recorder(Reply reply)
      : server_([this, reply](FakeConnection& connection) {
          while (auto request = connection.ReadRequest()) {
            {
              std::lock_guard lock(mutex_);
              seen_.push_back(*request);
            }
            reply(connection, *request);
          }
        }) {}
  std::string url() const { return server_.url(); }
  std::vector<SeenRequest> seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::vector<SeenRequest> seen_;
  FakeServer server_;
};

Recorder::Reply Always(int status, const std::string& body, const std::string& headers = "") {
  return [=](FakeConnection& connection, const SeenRequest&) {
    connection.Reply(status, body, headers);
  };
}

TEST(ResourcePath, CoversGroupsNamespacesAndSubresources) {
  EXPECT_EQ(ResourcePath(kPods, ""), "/api/v1/pods");
  EXPECT_EQ(ResourcePath(kPods, "ns", "a"), "/api/v1/namespaces/ns/pods/a");
  EXPECT_EQ(ResourcePath(kJobs, "ns", "a", "status"),
            "/apis/ddpjob.dev/v1alpha1/namespaces/ns/ddpjobs/a/status");
  EXPECT_EQ(ResourcePath(kPods, "../x", "a/b"), "/api/v1/namespaces/..%2Fx/pods/a%2Fb");
}

TEST(Client, SendsWhatAnApiServerExpects) {
  Recorder server(Always(200, "{}"));
  Client client(Transport(server.url()), std::make_shared<StaticToken>("secret"));
  ASSERT_TRUE(client.Create(kPods, "ns", {{"kind", "Pod"}}));
  ASSERT_TRUE(client.Patch(kPods, "ns", "a", PatchType::kMerge, {{"x", 1}}, "status"));
  DeleteOptions options;
  options.grace_seconds = 5;
  options.uid = "u1";
  ASSERT_TRUE(client.DeleteCollection(kPods, "ns", {"a=b,c=d", ""}, options));
  const auto seen = server.seen();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].method, "POST");
  EXPECT_THAT(seen[0].target, HasSubstr("fieldValidation=Strict"));
  EXPECT_EQ(seen[0].body, R"({"kind":"Pod"})");
  EXPECT_EQ(seen[0].headers.at("Authorization"), "Bearer secret");
  EXPECT_EQ(seen[0].headers.at("User-Agent"), "test/1");
  EXPECT_EQ(seen[1].method, "PATCH");
  EXPECT_EQ(seen[1].headers.at("Content-Type"), "application/merge-patch+json");
  EXPECT_EQ(seen[2].target, "/api/v1/namespaces/ns/pods?labelSelector=a%3Db%2Cc%3Dd");
  EXPECT_THAT(seen[2].body, HasSubstr(R"("gracePeriodSeconds":5)"));
  EXPECT_THAT(seen[2].body, HasSubstr(R"("preconditions":{"uid":"u1"})"));
}

TEST(Client, ReadsPages) {
  Recorder server(Always(
      200, R"({"metadata":{"continue":"c","resourceVersion":"5"},"items":[{"a":1},{"a":2}]})"));
  Client client(Transport(server.url()), nullptr);
  const auto page = client.List(kPods, "", {});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->items.size(), 2U);
  EXPECT_EQ(page->continue_token, "c");
  EXPECT_EQ(page->resource_version, "5");
}

TEST(Client, DeletingWhatIsGoneSucceeds) {
  Recorder server(Always(404, R"({"kind":"Status","reason":"NotFound","message":"gone"})"));
  Client client(Transport(server.url()), nullptr);
  EXPECT_TRUE(client.Delete(kPods, "ns", "a"));
  EXPECT_EQ(client.Get(kPods, "ns", "a").error().code, ErrorCode::kNotFound);
}

TEST(Client, TellsHowLongToWait) {
  Recorder server(Always(429, "{}", "Retry-After: 3\r\n"));
  Client client(Transport(server.url()), nullptr);
  const auto refused = client.Get(kPods, "ns", "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooManyRequests);
  EXPECT_EQ(refused.error().retry_after, std::chrono::seconds(3));
}

TEST(Client, ARedirectIsAnErrorAndCarriesTheTokenNowhere) {
  Recorder elsewhere(Always(200, "{}"));
  Recorder server(Always(307, "", "Location: " + elsewhere.url() + "/x\r\n"));
  Client client(Transport(server.url()), std::make_shared<StaticToken>("secret"));
  const auto refused = client.Get(kPods, "ns", "a");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("redirect"));
  EXPECT_TRUE(elsewhere.seen().empty());
}

class SwitchingToken : public TokenSource {
 public:
  std::string Token() override { return refused_ ? "new" : "old"; }
  bool Refused(const std::string& token) override {
    EXPECT_EQ(token, "old");
    return refused_ = true;
  }

 private:
  bool refused_ = false;
};

TEST(Client, ReadsTheTokenAgainOn401AndTriesOnce) {
  Recorder server([](FakeConnection& connection, const SeenRequest& request) {
    connection.Reply(request.headers.at("Authorization") == "Bearer new" ? 200 : 401, "{}");
  });
  Client client(Transport(server.url()), std::make_shared<SwitchingToken>());
  EXPECT_TRUE(client.Get(kPods, "ns", "a"));
  EXPECT_EQ(server.seen().size(), 2U);

  Recorder always(Always(401, "{}"));
  Client hopeless(Transport(always.url()), std::make_shared<StaticToken>("bad"));
  EXPECT_EQ(hopeless.Get(kPods, "ns", "a").error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(always.seen().size(), 1U);
}

TEST(Client, CreatesManyAndStopsAtTheFirstThatTheCallerDislikes) {
  std::atomic<int> count{0};
  Recorder server([&](FakeConnection& connection, const SeenRequest& request) {
    if (request.headers.at("Authorization") != "Bearer new") {
      connection.Reply(401, "{}");
    } else {
      connection.Reply(++count == 3 ? 422 : 201, R"({"metadata":{"uid":"u"}})");
    }
  });
  Client client(Transport(server.url()), std::make_shared<SwitchingToken>());
  std::vector<bool> good;
  client.CreateMany(
      10,
      [](size_t i) {
        return Client::Creation{&kPods, "ns", {{"rank", i}}};
      },
      4, {},
      [&](size_t /*i*/, const ApiResult<json::Json>& answer) {
        good.push_back(answer.has_value());
        return answer.has_value();
      });
  EXPECT_EQ(good, (std::vector<bool>{true, true, false}));
  const auto seen = server.seen();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[0].body, seen[1].body) << "the first is sent again";
  EXPECT_THAT(seen[1].headers.at("Accept"), HasSubstr("PartialObjectMetadata"));
}

TEST(Client, ATotalDeadlineHoldsAgainstASlowTrickle) {
  FakeServer server([](FakeConnection& connection) {
    connection.ReadRequest();
    connection.BeginChunked();
    connection.Chunk("{");
    connection.WaitForPeerToClose();
  });
  Client client(Transport(server.url()), nullptr);
  const auto start = std::chrono::steady_clock::now();
  const auto late = client.WithDeadline(milliseconds(100)).Get(kPods, "ns", "a");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kDeadline);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Client, NobodyListeningIsUnavailable) {
  std::string url;
  {
    url = FakeServer([](FakeConnection&) {}).url();
  }
  Client client(Transport(url), nullptr);
  const auto refused = client.Get(kPods, "ns", "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().http, 0);
}

TEST(Client, AStopEndsAnIdleWatchAtOnce) {
  std::promise<void> began;
  FakeServer server([&](FakeConnection& connection) {
    connection.ReadRequest();
    connection.BeginChunked();
    connection.Chunk("x\n");
    connection.WaitForPeerToClose();
  });
  Client client(Transport(server.url()), nullptr);
  std::stop_source stop;
  auto watch = std::async(std::launch::async, [&] {
    return client.Watch(kPods, "", {}, stop.get_token(), [&](std::string_view) {
      began.set_value();
      return true;
    });
  });
  began.get_future().wait();
  stop.request_stop();
  ASSERT_EQ(watch.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_EQ(watch.get().error().code, ErrorCode::kCancelled);
}

TEST(Client, AStopBeforeTheRequestIsHeededToo) {
  Recorder server(Always(200, "{}"));
  Client client(Transport(server.url()), nullptr);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(client.Get(kPods, "ns", "a", stop.get_token()).error().code, ErrorCode::kCancelled);
}

// A peer that vanished without a FIN: nothing comes any more.
TEST(Client, ASilentWatchEndsByItself) {
  FakeServer server([](FakeConnection& connection) {
    connection.ReadRequest();
    connection.BeginChunked();
    connection.WaitForPeerToClose();
  });
  Client client(Transport(server.url(), milliseconds(200)), nullptr);
  const auto ended = client.Watch(kPods, "", {}, {}, [](std::string_view) { return true; });
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kUnavailable);
}

TEST(Client, AWatchCutInMidStreamIsAnErrorAndAnEndedOneIsNot) {
  FakeServer cut([](FakeConnection& connection) {
    connection.ReadRequest();
    connection.BeginChunked();
    connection.Chunk("half");
  });
  Client client(Transport(cut.url()), nullptr);
  std::string got;
  const auto collect = [&](std::string_view bytes) {
    got += bytes;
    return true;
  };
  const auto broken = client.Watch(kPods, "", {}, {}, collect);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::kUnavailable);

  FakeServer clean([](FakeConnection& connection) {
    connection.ReadRequest();
    connection.BeginChunked();
    connection.Chunk("whole");
    connection.EndChunked();
    connection.WaitForPeerToClose();
  });
  got.clear();
  EXPECT_TRUE(Client(Transport(clean.url()), nullptr).Watch(kPods, "", {}, {}, collect));
  EXPECT_EQ(got, "whole");
}

TEST(Transport, RefusesAddressesThatCannotWork) {
  struct Row {
    const char* server;
    const char* why;
  };
  const Row rows[] = {{"h:6443", "https://"},
                      {"http://[::1]:80", "IPv6"},
                      {"https://h", "certificate authority"},
                      {"http://", "host"}};
  for (const Row& row : rows) {
    TransportOptions options;
    options.server = row.server;
    const auto refused = MakeHttpTransport(options);
    ASSERT_FALSE(refused) << row.server;
    EXPECT_THAT(refused.error().message, HasSubstr(row.why));
  }
}

TEST(ReadOnly, LetsOnlyReadingThrough) {
  Recorder server([](FakeConnection& connection, const SeenRequest& /*request*/) {
    connection.Reply(200, R"({"items":[]})");
  });
  Client client(MakeReadOnly(Transport(server.url())), nullptr);
  EXPECT_TRUE(client.List(kPods, "default", {}));
  EXPECT_TRUE(client.Watch(kPods, "default", {}, {}, [](std::string_view) { return true; }));
  const json::Json object = {{"metadata", {{"name", "a"}}}};
  const Selection one{"a=b", ""};
  for (const ErrorCode code :
       {client.Create(kPods, "default", object).error().code,
        client.Update(kJobs, "default", "a", object, "status").error().code,
        client.Patch(kJobs, "default", "a", PatchType::kMerge, object).error().code,
        client.Delete(kPods, "default", "a").error().code,
        client.DeleteCollection(kPods, "default", one).error().code}) {
    EXPECT_EQ(code, ErrorCode::kForbidden);
  }
  for (const SeenRequest& request : server.seen()) {
    EXPECT_EQ(request.method, "GET");
  }
}

TEST(Transport, AMissingAuthorityFileIsAnErrorNotACrash) {
  FakeServer server([](FakeConnection& connection) { connection.WaitForPeerToClose(); });
  TransportOptions options;
  options.server = "https://127.0.0.1:" + server.url().substr(server.url().rfind(':') + 1);
  options.ca.file = "/nowhere/ca.crt";
  auto transport = MakeHttpTransport(options);
  ASSERT_TRUE(transport);
  HttpRequest request;
  request.method = "GET";
  request.target = "/";
  const auto refused = (*transport)->Send(request, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("/nowhere/ca.crt"));
}

}  // namespace
}  // namespace ddp::kube
