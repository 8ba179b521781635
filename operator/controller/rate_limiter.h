// How long a failed item waits before its next try: the longer of its own exponential backoff and
// its place in a bucket that all items share. Constants: client-go default_rate_limiters.go.
// Not thread-safe: WorkQueue guards it.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>

#include "operator/base/backoff.h"

namespace ddp::controller {

class RateLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Options {
    base::Duration first = std::chrono::milliseconds(5);
    base::Duration longest = std::chrono::seconds(1000);
    double per_second = 10;
    double burst = 100;
  };

  RateLimiter() : RateLimiter(Options{}) {}
  explicit RateLimiter(const Options& options) : options_(options), tokens_(options.burst) {}

  // Counts a failure of the item.
  base::Duration When(const std::string& key, Time now) {
    const int failures = ++failures_[key];
    return std::max(base::ExponentialDelay(failures, options_.first, options_.longest),
                    TakeToken(now));
  }
  void Forget(const std::string& key) { failures_.erase(key); }
  int Failures(const std::string& key) const {
    const auto it = failures_.find(key);
    return it == failures_.end() ? 0 : it->second;
  }

 private:
  // The bucket may go below zero: that debt is the wait.
  base::Duration TakeToken(Time now) {
    const double seconds = std::chrono::duration<double>(now - last_).count();
    tokens_ = std::min(options_.burst, tokens_ + seconds * options_.per_second);
    last_ = now;
    tokens_ -= 1;
    const double wait = tokens_ >= 0 ? 0 : -tokens_ / options_.per_second;
    return std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(wait));
  }

  const Options options_;
  double tokens_;
  Time last_{};
  std::unordered_map<std::string, int> failures_;
};

}  // namespace ddp::controller
