// Manager and controller together, with scripted sources and reconcilers.
#include "operator/controller/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace ddp::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class FakeSource : public Source {
 public:
  explicit FakeSource(bool syncs) : Source("things"), syncs_(syncs) {}
  void Run(std::stop_token stop) override {
    if (syncs_) {
      SetSynced();
    }
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait(lock, stop, [] { return false; });
    stopped = true;
  }
  std::atomic<bool> stopped{false};

 private:
  const bool syncs_;
};

class FakeReconciler : public Reconciler {
 public:
  using Body = std::function<Outcome(const std::string&, int, const std::stop_token&)>;
  explicit FakeReconciler(Body body) : body_(std::move(body)) {}
  Outcome Reconcile(const std::string& key, const std::stop_token& stop) override {
    int call = 0;
    {
      std::lock_guard lock(mutex_);
      call = ++calls_;
      changed_.notify_all();
    }
    return body_(key, call, stop);
  }
  bool WaitForCalls(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20), [&] { return calls_ >= count; });
  }

 private:
  const Body body_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_ = 0;
};

class ManagerTest : public ::testing::Test {
 protected:
  Metrics metrics_;
  WorkQueue queue_{"ddpjob", metrics_};
};

TEST_F(ManagerTest, ASourceThatNeverListsIsNamed) {
  FakeSource source(false);
  Manager manager({milliseconds(50), milliseconds(0)});
  manager.Add(source);
  manager.StartSources();
  const auto result = manager.Run({});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("things"));
  EXPECT_TRUE(source.stopped);
}

TEST_F(ManagerTest, RunsUntilStoppedAndEndsItsThreads) {
  FakeSource source(true);
  FakeReconciler reconciler([](const std::string&, int, const auto&) { return Outcome::Done(); });
  Controller controller("ddpjob", queue_, reconciler, metrics_, 2);
  Manager manager;
  manager.Add(source);
  manager.Add(controller);
  queue_.Add("ns/a");
  std::stop_source stop;
  manager.StartSources();
  auto run = std::async(std::launch::async, [&] { return manager.Run(stop.get_token()); });
  ASSERT_TRUE(reconciler.WaitForCalls(1));
  stop.request_stop();
  ASSERT_EQ(run.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_TRUE(run.get());
  EXPECT_TRUE(source.stopped);
}

TEST_F(ManagerTest, EachOutcomeHasItsNextTurnAndItsCount) {
  FakeReconciler reconciler([](const std::string&, int call, const auto&) -> Outcome {
    switch (call) {
      case 1:
        return Outcome::Failed({base::ErrorCode::kUnavailable, "down"});
      case 2:
        return Outcome::Conflict();
      case 3:
        throw std::runtime_error("bug");
      case 4:
        return Outcome::After(milliseconds(1));
      default:
        return Outcome::Done();
    }
  });
  {
    Controller controller("ddpjob", queue_, reconciler, metrics_, 1);
    controller.Start();
    queue_.Add("ns/a");
    ASSERT_TRUE(reconciler.WaitForCalls(5));
    controller.Stop(seconds(20));
  }
  EXPECT_EQ(queue_.Failures("ns/a"), 0);
  const std::string text = metrics_.Text();
  for (const char* line : {R"(reconcile_total{controller="ddpjob",result="success"} 1)",
                           R"(reconcile_total{controller="ddpjob",result="requeue"} 1)",
                           R"(reconcile_total{controller="ddpjob",result="requeue_after"} 1)",
                           R"(reconcile_total{controller="ddpjob",result="error"} 2)",
                           R"(reconcile_errors_total{controller="ddpjob"} 2)",
                           R"(reconcile_panics_total{controller="ddpjob"} 1)",
                           R"(active_workers{controller="ddpjob"} 0)",
                           R"(max_concurrent_reconciles{controller="ddpjob"} 1)"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(ManagerTest, AReconcileThatHangsIsToldToGiveUp) {
  FakeReconciler reconciler([](const std::string&, int, const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait(lock, stop, [] { return false; });
    return Outcome::Failed({base::ErrorCode::kCancelled, "stopped"});
  });
  Controller controller("ddpjob", queue_, reconciler, metrics_, 1);
  controller.Start();
  queue_.Add("ns/a");
  ASSERT_TRUE(reconciler.WaitForCalls(1));
  controller.Stop(milliseconds(10));
}

TEST(MetricsTest, WritesPrometheusText) {
  Metrics metrics;
  metrics.AddCounter("c_total", "help", {{"k", "v"}}).Increment(2);
  metrics.AddGauge("g", "help").Set(0.5);
  metrics.AddHistogram("h", "help", {1, 2}).Observe(1.5);
  AddProcessMetrics(metrics);
  RequestCounter requests(metrics);
  requests.Count("GET", "200");
  requests.Count("GET", "200");
  metrics.AddCollector([] {
    return std::vector<GaugeFamily>{{"things", "help", {{{{"name", "a\"b"}}, 1}, {{}, 2}}}};
  });
  const std::string text = metrics.Text();
  for (const char* line :
       {"# TYPE things gauge", "things{name=\"a\\\"b\"} 1", "things 2", "c_total{k=\"v\"} 2",
        "g 0.5", "h_bucket{le=\"1\"} 0", "h_bucket{le=\"2\"} 1", "process_resident_memory_bytes",
        "rest_client_requests_total{code=\"200\",method=\"GET\"} 2"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace ddp::controller
