// What has to be looked at again, by key. Its contract (client-go util/workqueue):
//   - a key that waits is there once, however often it is added;
//   - a key is with at most one worker at a time; added meanwhile, it waits for that worker's Done
//     and is then handed out again, so no change is missed;
//   - keys come out in the order they went in;
//   - a delayed key has one deadline, the earliest asked for.
// Thread-safe. Workers: `while (auto key = queue.Get(stop)) { …; queue.Done(*key); }`
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <unordered_map>

#include "operator/base/clock.h"
#include "operator/controller/metrics.h"
#include "operator/controller/rate_limiter.h"

namespace ddp::controller {

class WorkQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The name is the metrics' label `name`. Metrics must outlive the queue's use by scrapes: destroy
  // the server that serves them first.
  WorkQueue(const std::string& name, Metrics& metrics,
            const base::Clock& clock = base::SystemClock(), RateLimiter limiter = RateLimiter());

  void Add(const std::string& key);
  void AddAfter(const std::string& key, base::Duration delay);
  // After a failure; counts it.
  void AddRateLimited(const std::string& key);
  // After a success: the next failure is the first again.
  void Forget(const std::string& key);
  int Failures(const std::string& key) const;

  // Blocks. Nothing: stopped, or shut down and empty.
  std::optional<std::string> Get(const std::stop_token& stop);
  // Does not block. For tests with a clock of their own.
  std::optional<std::string> TryGet();
  void Done(const std::string& key);

  // No more is accepted; what waits is handed out still, what is delayed is not.
  void ShutDown();
  size_t size() const;

 private:
  struct Instruments {
    Gauge& depth;
    Counter& adds;
    Counter& retries;
    Histogram& queue_duration;
    Histogram& work_duration;
  };
  static Instruments MakeInstruments(const std::string& name, Metrics& metrics);
  void AddGaugeFunctions(const std::string& name, Metrics& metrics);

  // All of these with mutex_ held.
  void AddLocked(const std::string& key);
  void PushLocked(const std::string& key);
  void AddAfterLocked(const std::string& key, Time due);
  void MoveDueLocked();
  std::optional<std::string> PopLocked();

  const base::Clock& clock_;
  const Instruments instruments_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  RateLimiter limiter_;
  std::deque<std::string> ready_;
  std::unordered_map<std::string, Time> dirty_;       // to be handed out, since when
  std::unordered_map<std::string, Time> processing_;  // with a worker, since when
  std::set<std::pair<Time, std::string>> delayed_;
  std::unordered_map<std::string, Time> due_;  // the same by key
  bool shut_down_ = false;
};

}  // namespace ddp::controller
