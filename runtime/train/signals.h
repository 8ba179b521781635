// Turns SIGTERM and SIGINT into a request to stop, and makes sure that the program ends.
// Made first thing in main(), by the only thread: it blocks both signals for all threads that start
// later and waits for them on a thread of its own, so there is no code in signal handlers.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/base/error.h"

namespace ddp::rt::train {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on the first signal is a request, and the program must have ended `grace` later; a
  // second signal, or the grace's end, ends it at once. Before, there is nothing to save: the first
  // one does.
  void Arm(std::chrono::seconds grace);
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

  // The program is leaving with this code, for good or bad: it must have ended within `limit`.
  void EndWithin(std::chrono::seconds limit, int code);

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  // Returns false when the object is being destroyed.
  bool Poll();
  void Received(int signal);
  int MillisecondsLeft() const;

  std::atomic<bool> requested_ = false;
  std::atomic<bool> armed_ = false;
  std::atomic<bool> stop_ = false;
  std::atomic<Clock::rep> grace_ = 0;
  std::atomic<Clock::rep> end_at_ = 0;  // 0 = no limit yet
  std::atomic<int> end_code_ = 0;
  int signals_ = -1;  // signalfd
  int wake_ = -1;     // eventfd
  std::thread thread_;
};

}  // namespace ddp::rt::train
