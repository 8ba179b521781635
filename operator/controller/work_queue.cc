#include "operator/controller/work_queue.h"

namespace ddp::controller {
namespace {

// controller-runtime's buckets: 10 ns … 1000 s in powers of ten would hide everything between;
// these are its newer ones, from 1 ms up.
const std::vector<double>& DurationBounds() {
  static const std::vector<double> bounds = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600};
  return bounds;
}

double Seconds(WorkQueue::Time from, WorkQueue::Time to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

WorkQueue::Instruments WorkQueue::MakeInstruments(const std::string& name, Metrics& metrics) {
  const Labels labels = {{"name", name}};
  return {metrics.AddGauge("workqueue_depth", "Keys that wait", labels),
          metrics.AddCounter("workqueue_adds_total", "Keys added", labels),
          metrics.AddCounter("workqueue_retries_total", "Keys added after a failure", labels),
          metrics.AddHistogram("workqueue_queue_duration_seconds", "How long a key waits",
                               DurationBounds(), labels),
          metrics.AddHistogram("workqueue_work_duration_seconds", "How long a worker has a key",
                               DurationBounds(), labels)};
}

void WorkQueue::AddGaugeFunctions(const std::string& name, Metrics& metrics) {
  metrics.AddGaugeFunction("workqueue_unfinished_work_seconds",
                           "Time that keys have been with workers, summed", {{"name", name}},
                           [this] {
                             std::lock_guard lock(mutex_);
                             double sum = 0;
                             for (const auto& [key, since] : processing_) {
                               sum += Seconds(since, clock_.Steady());
                             }
                             return sum;
                           });
  metrics.AddGaugeFunction("workqueue_longest_running_processor_seconds",
                           "Time that one key has been with its worker, at most", {{"name", name}},
                           [this] {
                             std::lock_guard lock(mutex_);
                             double longest = 0;
                             for (const auto& [key, since] : processing_) {
                               longest = std::max(longest, Seconds(since, clock_.Steady()));
                             }
                             return longest;
                           });
}

WorkQueue::WorkQueue(const std::string& name, Metrics& metrics, const base::Clock& clock,
                     RateLimiter limiter)
    : clock_(clock), instruments_(MakeInstruments(name, metrics)), limiter_(std::move(limiter)) {
  AddGaugeFunctions(name, metrics);
}

void WorkQueue::Add(const std::string& key) {
  std::lock_guard lock(mutex_);
  AddLocked(key);
}

void WorkQueue::AddLocked(const std::string& key) {
  if (shut_down_ || dirty_.contains(key)) {
    return;
  }
  instruments_.adds.Increment();
  dirty_[key] = clock_.Steady();
  if (!processing_.contains(key)) {
    PushLocked(key);
  }
}

void WorkQueue::PushLocked(const std::string& key) {
  ready_.push_back(key);
  instruments_.depth.Set(static_cast<double>(ready_.size()));
  changed_.notify_one();
}

void WorkQueue::AddAfter(const std::string& key, base::Duration delay) {
  std::lock_guard lock(mutex_);
  if (delay <= base::Duration::zero()) {
    AddLocked(key);
  } else {
    AddAfterLocked(key, clock_.Steady() + delay);
  }
}

void WorkQueue::AddAfterLocked(const std::string& key, Time due) {
  if (shut_down_) {
    return;
  }
  const auto [it, inserted] = due_.try_emplace(key, due);
  if (!inserted) {
    if (it->second <= due) {
      return;
    }
    delayed_.erase({it->second, key});
    it->second = due;
  }
  delayed_.emplace(due, key);
  if (delayed_.begin()->second == key) {
    changed_.notify_all();  // whoever waits, waits for too long now
  }
}

void WorkQueue::AddRateLimited(const std::string& key) {
  std::lock_guard lock(mutex_);
  instruments_.retries.Increment();
  const Time now = clock_.Steady();
  AddAfterLocked(key, now + limiter_.When(key, now));
}

void WorkQueue::Forget(const std::string& key) {
  std::lock_guard lock(mutex_);
  limiter_.Forget(key);
}

int WorkQueue::Failures(const std::string& key) const {
  std::lock_guard lock(mutex_);
  return limiter_.Failures(key);
}

void WorkQueue::MoveDueLocked() {
  const Time now = clock_.Steady();
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const std::string key = delayed_.begin()->second;
    delayed_.erase(delayed_.begin());
    due_.erase(key);
    AddLocked(key);
  }
}

std::optional<std::string> WorkQueue::PopLocked() {
  MoveDueLocked();
  if (ready_.empty()) {
    return std::nullopt;
  }
  std::string key = std::move(ready_.front());
  ready_.pop_front();
  instruments_.depth.Set(static_cast<double>(ready_.size()));
  const Time now = clock_.Steady();
  const auto added = dirty_.find(key);
  instruments_.queue_duration.Observe(Seconds(added->second, now));
  dirty_.erase(added);
  processing_[key] = now;
  return key;
}

std::optional<std::string> WorkQueue::TryGet() {
  std::lock_guard lock(mutex_);
  return PopLocked();
}

std::optional<std::string> WorkQueue::Get(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (auto key = PopLocked()) {
      return key;
    }
    if (shut_down_) {
      return std::nullopt;
    }
    const auto woken = [this, next = delayed_.empty() ? Time::max() : delayed_.begin()->first] {
      return !ready_.empty() || shut_down_ || (!delayed_.empty() && delayed_.begin()->first < next);
    };
    if (delayed_.empty()) {
      changed_.wait(lock, stop, woken);
    } else {
      changed_.wait_for(lock, stop, delayed_.begin()->first - clock_.Steady(), woken);
    }
  }
  return std::nullopt;
}

void WorkQueue::Done(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto it = processing_.find(key);
  if (it == processing_.end()) {
    return;
  }
  instruments_.work_duration.Observe(Seconds(it->second, clock_.Steady()));
  processing_.erase(it);
  if (dirty_.contains(key)) {
    PushLocked(key);
  }
}

void WorkQueue::ShutDown() {
  std::lock_guard lock(mutex_);
  shut_down_ = true;
  delayed_.clear();
  due_.clear();
  changed_.notify_all();
}

size_t WorkQueue::size() const {
  std::lock_guard lock(mutex_);
  return ready_.size();
}

}  // namespace ddp::controller
