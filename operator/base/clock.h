// Time as an argument: whoever decides by time takes a Clock, tests hand in a FakeClock.
// Thread-safe.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "operator/base/result.h"

namespace ddp::base {

// Wall time, as Kubernetes timestamps are; microseconds, the resolution of MicroTime.
using TimePoint = std::chrono::sys_time<std::chrono::microseconds>;
using Duration = std::chrono::microseconds;

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  // For waits: never goes back.
  virtual std::chrono::steady_clock::time_point Steady() const = 0;
};

// The machine's clock; lives as long as the program.
const Clock& SystemClock();

class FakeClock : public Clock {
 public:
  explicit FakeClock(TimePoint start = TimePoint(std::chrono::seconds(1'700'000'000)))
      : now_(start) {}
  TimePoint Now() const override {
    std::lock_guard lock(mutex_);
    return now_;
  }
  std::chrono::steady_clock::time_point Steady() const override {
    std::lock_guard lock(mutex_);
    return std::chrono::steady_clock::time_point(now_.time_since_epoch());
  }
  void Advance(Duration by) {
    std::lock_guard lock(mutex_);
    now_ += by;
  }

 private:
  mutable std::mutex mutex_;
  TimePoint now_;
};

// RFC 3339 in UTC with whole seconds: "2026-01-02T03:04:05Z" (metav1.Time).
std::string FormatTime(TimePoint time);
// The same with microseconds: "2026-01-02T03:04:05.000006Z" (metav1.MicroTime).
std::string FormatMicroTime(TimePoint time);
// Both of the above, any number of fraction digits, Z or ±hh:mm. kInvalid otherwise.
Result<TimePoint> ParseTime(std::string_view text);

}  // namespace ddp::base
