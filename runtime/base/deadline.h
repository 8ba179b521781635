// A moment by which a wait must end, and what is being waited for, so that the error can say so.
// A small value; copy it freely.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace ddp::rt {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  // `reason` completes "after 30 s waiting for …", e.g. "rank 1 to join".
  static Deadline In(Milliseconds timeout, std::string reason) {
    return {Clock::now() + timeout, timeout, std::move(reason)};
  }
  // The same moment with another reason: for the steps of one bounded operation.
  Deadline For(std::string reason) const { return {at_, timeout_, std::move(reason)}; }

  Clock::time_point at() const { return at_; }
  const std::string& reason() const { return reason_; }
  bool Expired() const { return Clock::now() >= at_; }
  // Time left, rounded up so that a wait of this length does not end early; 0 once expired.
  Milliseconds Left() const {
    return std::max(Milliseconds(0), std::chrono::ceil<Milliseconds>(at_ - Clock::now()));
  }
  // "30 s", "0.25 s": the length it was made with.
  std::string TimeoutText() const;

 private:
  Deadline(Clock::time_point at, Milliseconds timeout, std::string reason)
      : at_(at), timeout_(timeout), reason_(std::move(reason)) {}

  Clock::time_point at_;
  Milliseconds timeout_;
  std::string reason_;
};

}  // namespace ddp::rt
