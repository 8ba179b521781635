#include "operator/controller/work_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <thread>

namespace ddp::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WorkQueueTest : public ::testing::Test {
 protected:
  base::FakeClock clock_;
  Metrics metrics_;
  WorkQueue queue_{"test", metrics_, clock_};
};

TEST_F(WorkQueueTest, AKeyWaitsOnceAndComesOutInOrder) {
  queue_.Add("a");
  queue_.Add("b");
  queue_.Add("a");
  EXPECT_EQ(queue_.TryGet(), "a");
  EXPECT_EQ(queue_.TryGet(), "b");
  EXPECT_EQ(queue_.TryGet(), std::nullopt);
}

TEST_F(WorkQueueTest, AKeyAddedWhileProcessedComesAgainAfterDone) {
  queue_.Add("a");
  EXPECT_EQ(queue_.TryGet(), "a");
  queue_.Add("a");
  EXPECT_EQ(queue_.TryGet(), std::nullopt);
  queue_.Done("a");
  EXPECT_EQ(queue_.TryGet(), "a");
  queue_.Done("a");
  EXPECT_EQ(queue_.TryGet(), std::nullopt);
}

TEST_F(WorkQueueTest, DelaysKeepTheEarliestDeadline) {
  queue_.AddAfter("a", seconds(10));
  queue_.AddAfter("a", seconds(5));
  queue_.AddAfter("a", seconds(20));
  clock_.Advance(milliseconds(4999));
  EXPECT_EQ(queue_.TryGet(), std::nullopt);
  clock_.Advance(milliseconds(1));
  EXPECT_EQ(queue_.TryGet(), "a");
  queue_.Done("a");
  clock_.Advance(seconds(60));
  EXPECT_EQ(queue_.TryGet(), std::nullopt);
}

TEST_F(WorkQueueTest, FailuresBackOffAndForgetStartsAnew) {
  for (const int expected : {5, 10, 20, 40}) {
    queue_.AddRateLimited("a");
    clock_.Advance(milliseconds(expected) - base::Duration(1));
    EXPECT_EQ(queue_.TryGet(), std::nullopt) << expected;
    clock_.Advance(base::Duration(1));
    EXPECT_EQ(queue_.TryGet(), "a") << expected;
    queue_.Done("a");
  }
  EXPECT_EQ(queue_.Failures("a"), 4);
  queue_.Forget("a");
  queue_.AddRateLimited("a");
  clock_.Advance(milliseconds(5));
  EXPECT_EQ(queue_.TryGet(), "a");
}

TEST_F(WorkQueueTest, ShutDownDrainsWhatWaitsAndAcceptsNoMore) {
  queue_.Add("a");
  queue_.AddAfter("b", seconds(1));
  queue_.ShutDown();
  queue_.Add("c");
  EXPECT_EQ(queue_.Get({}), "a");
  EXPECT_EQ(queue_.Get({}), std::nullopt);
}

TEST_F(WorkQueueTest, ReportsItself) {
  queue_.Add("a");
  EXPECT_NE(metrics_.Text().find("workqueue_depth{name=\"test\"} 1"), std::string::npos);
  queue_.TryGet();
  clock_.Advance(seconds(3));
  const std::string text = metrics_.Text();
  EXPECT_NE(text.find("workqueue_unfinished_work_seconds{name=\"test\"} 3"), std::string::npos);
  EXPECT_NE(text.find("workqueue_longest_running_processor_seconds{name=\"test\"} 3"),
            std::string::npos);
  EXPECT_NE(text.find("workqueue_retries_total{name=\"test\"} 0"), std::string::npos);
}

TEST(RateLimiterTest, ReachesItsCapAndTheBucketHoldsAllTogether) {
  RateLimiter limiter;
  const RateLimiter::Time now{std::chrono::hours(1)};
  base::Duration last{};
  for (int i = 0; i < 40; ++i) {
    last = limiter.When("a", now);
  }
  EXPECT_EQ(last, seconds(1000));
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(limiter.When("k" + std::to_string(i), now), milliseconds(5));
  }
  EXPECT_EQ(limiter.When("late", now), milliseconds(100));
  EXPECT_EQ(limiter.When("later", now), milliseconds(200));
  EXPECT_EQ(limiter.When("after a while", now + seconds(1)), milliseconds(5));
}

// The rules of the header as the simplest possible model, against which the queue is driven at
// random.
class Model {
 public:
  void Add(const std::string& key) {
    if (waiting_.contains(key)) {
      return;
    }
    waiting_.insert(key);
    if (!with_worker_.contains(key)) {
      order_.push_back(key);
    }
  }
  void AddAt(const std::string& key, int64_t due) {
    const auto [it, inserted] = due_.try_emplace(key, due);
    it->second = std::min(it->second, due);
  }
  void Advance(int64_t now) {
    std::vector<std::pair<int64_t, std::string>> due;
    for (const auto& [key, when] : due_) {
      if (when <= now) {
        due.emplace_back(when, key);
      }
    }
    std::sort(due.begin(), due.end());
    for (const auto& [when, key] : due) {
      due_.erase(key);
      Add(key);
    }
  }
  std::optional<std::string> Get() {
    if (order_.empty()) {
      return std::nullopt;
    }
    const std::string key = order_.front();
    order_.pop_front();
    waiting_.erase(key);
    with_worker_.insert(key);
    return key;
  }
  void Done(const std::string& key) {
    with_worker_.erase(key);
    if (waiting_.contains(key)) {
      order_.push_back(key);
    }
  }
  const std::set<std::string>& with_worker() const { return with_worker_; }

 private:
  std::list<std::string> order_;
  std::set<std::string> waiting_;
  std::set<std::string> with_worker_;
  std::map<std::string, int64_t> due_;
};

TEST(WorkQueueModel, BehavesAsItsRulesSayUnderRandomUse) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    base::FakeClock clock;
    Metrics metrics;
    WorkQueue queue("model", metrics, clock);
    Model model;
    int64_t now = 0;
    for (int step = 0; step < 400; ++step) {
      const std::string key(1, static_cast<char>('a' + random() % 6));
      switch (random() % 5) {
        case 0:
          queue.Add(key);
          model.Add(key);
          break;
        case 1: {
          const int64_t delay = 1 + static_cast<int64_t>(random() % 20);
          queue.AddAfter(key, base::Duration(delay));
          model.AddAt(key, now + delay);
          break;
        }
        case 2: {
          const int64_t by = static_cast<int64_t>(random() % 8);
          clock.Advance(base::Duration(by));
          now += by;
          break;
        }
        case 3:
          model.Advance(now);
          ASSERT_EQ(queue.TryGet(), model.Get()) << "step " << step;
          break;
        default:
          if (model.with_worker().contains(key)) {
            queue.Done(key);
            model.Done(key);
          }
      }
      // The queue looks at the clock when it is asked; so must the model, in the same order.
      if (random() % 2 == 0) {
        model.Advance(now);
        ASSERT_EQ(queue.TryGet(), model.Get()) << "step " << step;
      }
    }
  }
}

TEST(WorkQueueThreads, NoKeyIsWithTwoWorkersAndNoAddIsLost) {
  Metrics metrics;
  WorkQueue queue("threads", metrics);
  constexpr int kKeys = 8;
  constexpr int kAdds = 2000;
  std::array<std::atomic<int>, kKeys> holders{};
  std::array<std::atomic<int>, kKeys> added{};
  std::array<std::atomic<int>, kKeys> seen{};
  std::atomic<bool> overlap{false};
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 4; ++i) {
      workers.emplace_back([&] {
        while (auto key = queue.Get({})) {
          const auto index = static_cast<size_t>(std::stoi(*key));
          overlap = overlap || ++holders[index] != 1;
          seen[index] = added[index].load();  // level-based: takes all there is
          --holders[index];
          queue.Done(*key);
        }
      });
    }
    for (int i = 0; i < kAdds; ++i) {
      const int key = i % kKeys;
      ++added[static_cast<size_t>(key)];
      if (i % 3 == 0) {
        queue.AddAfter(std::to_string(key), base::Duration(50));
      }
      queue.Add(std::to_string(key));
    }
    queue.ShutDown();
  }
  EXPECT_FALSE(overlap);
  for (size_t i = 0; i < kKeys; ++i) {
    EXPECT_EQ(seen[i], added[i]);
  }
}

TEST(WorkQueueThreads, GetWakesForADelayAndForAStop) {
  Metrics metrics;
  WorkQueue queue("wake", metrics);
  queue.AddAfter("a", milliseconds(20));
  EXPECT_EQ(queue.Get({}), "a");
  std::stop_source stop;
  std::jthread waiter([&] { EXPECT_EQ(queue.Get(stop.get_token()), std::nullopt); });
  stop.request_stop();
}

}  // namespace
}  // namespace ddp::controller
