// Runs callbacks at given times on one thread: the total deadline of requests whose HTTP library
// knows only idle timeouts. Thread-safe. Destroying it forgets what has not run.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace ddp::kube {

class Deadlines {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Deadlines() : thread_([this](std::stop_token stop) { Run(std::move(stop)); }) {}

  // Forgets its callback when destroyed; once the destructor has returned the callback neither
  // runs nor will run.
  class Guard {
   public:
    Guard(Deadlines& owner, Time when, std::function<void()> then) : owner_(owner) {
      std::lock_guard lock(owner_.mutex_);
      entry_ = owner_.entries_.emplace(when, std::move(then));
      if (entry_ == owner_.entries_.begin()) {
        owner_.changed_.notify_all();
      }
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
      std::lock_guard lock(owner_.mutex_);
      owner_.entries_.erase(entry_);
    }

   private:
    Deadlines& owner_;
    std::multimap<Time, std::function<void()>>::iterator entry_;
  };

 private:
  void Run(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const auto now = std::chrono::steady_clock::now();
      Time next = Time::max();
      for (auto it = entries_.begin(); it != entries_.end(); ++it) {
        if (!it->second) {
          continue;  // has run; its guard removes it
        }
        if (it->first > now) {
          next = it->first;
          break;
        }
        // Under the lock on purpose: that is what lets ~Guard promise that nothing runs any more.
        std::exchange(it->second, nullptr)();
      }
      if (next == Time::max()) {
        changed_.wait(lock, stop, [&] { return EarliestPending() != Time::max(); });
      } else {
        changed_.wait_until(lock, stop, next, [&] { return EarliestPending() < next; });
      }
    }
  }

  Time EarliestPending() const {
    for (const auto& [when, then] : entries_) {
      if (then) {
        return when;
      }
    }
    return Time::max();
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::multimap<Time, std::function<void()>> entries_;
  std::jthread thread_;
};

}  // namespace ddp::kube
