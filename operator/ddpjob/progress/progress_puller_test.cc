#include "operator/ddpjob/progress/progress_puller.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <set>

#include "operator/ddpjob/progress/hostile_server.h"

namespace ddp::job {
namespace {

using kube::FakeConnection;
using kube::FakeServer;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience{20};

PullOptions Fast() {
  PullOptions options;
  options.shortest = milliseconds(20);
  options.longest = milliseconds(50);
  options.report_every = milliseconds(100);
  options.startup_grace = milliseconds(0);
  options.unreachable = milliseconds(50);
  return options;
}

// What the puller tells, to be waited for.
class Heard {
 public:
  ProgressPuller::Callbacks Callbacks() {
    return {[this](const std::string& key) {
              const std::lock_guard lock(mutex_);
              ++news_[key];
              changed_.notify_all();
            },
            [this](const std::string& key, const base::Result<ProgressReply>& reply) {
              const std::lock_guard lock(mutex_);
              steps_[key] = reply ? reply->progress.step : -1;
              changed_.notify_all();
            }};
  }
  bool WaitForNews(const std::string& key, int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return news_[key] >= count; });
  }
  bool WaitForStep(const std::string& key, int64_t step) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return steps_[key] >= step; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> news_;
  std::map<std::string, int64_t> steps_;
};

PullTarget On(const FakeServer& server, int attempt = 1) {
  return {{"127.0.0.1", PortOf(server)}, attempt, seconds(0)};
}

TEST(ProgressPuller, TellsHowFarAJobIs) {
  std::atomic<int> step = 0;
  FakeServer server([&step](FakeConnection& connection) {
    if (connection.ReadRequest()) {
      connection.Reply(200, R"({"step":)" + std::to_string(++step) + "}");
    }
  });
  Heard heard;
  ProgressPuller puller(heard.Callbacks(), Fast());
  EXPECT_FALSE(puller.Latest("a", 1));
  puller.Watch("a", On(server));
  ASSERT_TRUE(heard.WaitForNews("a", 1));
  const auto first = puller.Latest("a", 1);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->ok);
  EXPECT_GE(first->progress.step, 1);
  EXPECT_FALSE(puller.Latest("a", 2));
  ASSERT_TRUE(heard.WaitForNews("a", 2));
  EXPECT_GT(puller.Latest("a", 1)->progress.step, first->progress.step);
  ASSERT_TRUE(heard.WaitForStep("a", 10));
  puller.Watch("a", std::nullopt);
  EXPECT_EQ(puller.watched(), 0U);
  EXPECT_FALSE(puller.Latest("a", 1));
}

TEST(ProgressPuller, SaysWhyAPeerTellsNothing) {
  FakeServer server([](FakeConnection& connection) {
    if (connection.ReadRequest()) {
      connection.Reply(200, R"({"loss": 1})");
    }
  });
  Heard heard;
  ProgressPuller puller(heard.Callbacks(), Fast());
  puller.Watch("a", On(server));
  ASSERT_TRUE(heard.WaitForNews("a", 1));
  EXPECT_FALSE(puller.Latest("a", 1)->ok);
  EXPECT_EQ(puller.Latest("a", 1)->error, "the answer has no 'step' that is a whole number");
}

// A hundred jobs whose rank 0 says nothing do not keep another from being heard.
TEST(ProgressPuller, SilentPodsHoldUpNobody) {
  FakeServer silent([](FakeConnection& connection) { connection.WaitForPeerToClose(); });
  FakeServer server([](FakeConnection& connection) {
    if (connection.ReadRequest()) {
      connection.Reply(200, R"({"step": 5})");
    }
  });
  PullOptions options = Fast();
  options.max_in_flight = 128;
  Heard heard;
  ProgressPuller puller(heard.Callbacks(), options);
  for (int i = 0; i < 100; ++i) {
    puller.Watch("silent-" + std::to_string(i), On(silent));
  }
  const auto start = std::chrono::steady_clock::now();
  puller.Watch("good", On(server));
  ASSERT_TRUE(heard.WaitForNews("good", 1));
  EXPECT_LT(std::chrono::steady_clock::now() - start, HttpGetter::kDeadline);
}

}  // namespace
}  // namespace ddp::job
