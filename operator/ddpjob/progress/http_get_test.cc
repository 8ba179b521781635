// Against real sockets: a peer may do what it likes.
#include "operator/ddpjob/progress/http_get.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <condition_variable>
#include <fstream>
#include <future>

#include "operator/ddpjob/progress/hostile_server.h"

namespace ddp::job {
namespace {

using kube::FakeConnection;
using kube::FakeServer;
using Clock = std::chrono::steady_clock;

base::Result<std::string> GetFrom(HttpGetter& getter, const HttpAddress& address) {
  auto promise = std::make_shared<std::promise<base::Result<std::string>>>();
  auto answer = promise->get_future();
  getter.Get(address, "/progress", [promise](base::Result<std::string> result) {
    promise->set_value(std::move(result));
  });
  if (answer.wait_for(std::chrono::seconds(10)) != std::future_status::ready) {
    return base::Error{base::ErrorCode::kInternal, "no callback came"};
  }
  return answer.get();
}

TEST(HttpGetter, BringsTheBody) {
  FakeServer server([](FakeConnection& connection) {
    const auto request = connection.ReadRequest();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->method, "GET");
    EXPECT_EQ(request->target, "/progress");
    EXPECT_FALSE(request->headers.contains("Authorization"));
    connection.BeginChunked();
    connection.Chunk(R"({"step":)");
    connection.Chunk("7}");
    connection.EndChunked();
  });
  HttpGetter getter;
  const auto body = GetFrom(getter, {"127.0.0.1", PortOf(server)});
  ASSERT_TRUE(body) << body.error().message;
  EXPECT_EQ(*body, R"({"step":7})");
}

TEST(HttpGetter, NobodyThere) {
  int port = 0;
  {
    FakeServer server([](FakeConnection& /*connection*/) {});
    port = PortOf(server);
  }
  HttpGetter getter;
  EXPECT_EQ(GetFrom(getter, {"127.0.0.1", port}).error().message, "connection refused");
  EXPECT_EQ(GetFrom(getter, {"rank-0.example", 9410}).error().code, base::ErrorCode::kInvalid);
  EXPECT_EQ(GetFrom(getter, {"127.0.0.1", 70'000}).error().code, base::ErrorCode::kInvalid);
}

double ResidentMiB() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * 4096 / (1 << 20);
}

// All at once: none holds up another, each has its word within the deadline, and memory stays.
TEST(HttpGetter, AHostilePeerCostsAtMostTheDeadlineAndLittleMemory) {
  std::vector<std::unique_ptr<FakeServer>> servers;
  for (const Hostile& hostile : HostileAnswers()) {
    servers.push_back(std::make_unique<FakeServer>([&hostile](FakeConnection& connection) {
      if (connection.ReadRequest()) {
        hostile.act(connection);
      }
    }));
  }
  const double before = ResidentMiB();
  HttpGetter getter;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> said(servers.size());
  size_t done = 0;
  const auto start = Clock::now();
  for (size_t i = 0; i < servers.size(); ++i) {
    getter.Get({"127.0.0.1", PortOf(*servers[i])}, "/progress",
               [&, i](const base::Result<std::string>& result) {
                 const std::lock_guard lock(mutex);
                 said[i] = result ? "success" : result.error().message;
                 ++done;
                 changed.notify_all();
               });
  }
  std::unique_lock lock(mutex);
  ASSERT_TRUE(
      changed.wait_for(lock, std::chrono::seconds(20), [&] { return done == servers.size(); }));
  EXPECT_LT(Clock::now() - start, HttpGetter::kDeadline + std::chrono::seconds(3));
  for (size_t i = 0; i < servers.size(); ++i) {
    EXPECT_EQ(said[i], HostileAnswers()[i].says) << HostileAnswers()[i].what;
  }
  EXPECT_LT(ResidentMiB() - before, 32);
}

TEST(HttpGetter, EndsWithExchangesUnderWay) {
  FakeServer server([](FakeConnection& connection) { connection.WaitForPeerToClose(); });
  std::atomic<int> called{0};
  const auto start = Clock::now();
  {
    HttpGetter getter;
    for (int i = 0; i < 20; ++i) {
      getter.Get({"127.0.0.1", PortOf(server)}, "/progress",
                 [&called](const base::Result<std::string>& /*result*/) { ++called; });
    }
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(called, 0);
}

TEST(HttpGetter, WakesWhenAsked) {
  HttpGetter getter;
  std::promise<Clock::time_point> woken;
  const auto when = Clock::now() + std::chrono::milliseconds(30);
  getter.WakeAt(Clock::now() + std::chrono::hours(1), [] { FAIL(); });
  getter.WakeAt(when, [&woken] { woken.set_value(Clock::now()); });
  auto answer = woken.get_future();
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_GE(answer.get(), when);
}

}  // namespace
}  // namespace ddp::job
