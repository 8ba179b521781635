// Notices that the training thread of this rank is stuck: neither a step done nor another phase
// begun within the phase's deadline. Then it says so, breaks the group so that the others hear who
// it was, logs the thread's stack, and ends the program: the thread can't.
//
// A rank that waits for another is not stuck: its collective has a deadline of its own, which ends
// it. So this one comes later than that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/train/board.h"

namespace ddp::rt::health {

struct PhaseLimits {
  std::chrono::milliseconds step;
  std::chrono::milliseconds evaluation;
  std::chrono::milliseconds checkpoint;
};

class Watchdog {
 public:
  // Watches the calling thread until destroyed. `expired` is called once, on another thread, with a
  // sentence; first of all it sets an end to the program that needs nothing of the stuck thread.
  // The thread's stack is logged when it returns.
  Watchdog(const train::Board& board, const PhaseLimits& limits,
           std::function<void(const std::string&)> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // What a collective of this length leaves the rank itself, before it counts as stuck.
  static std::chrono::milliseconds StuckAfter(std::chrono::milliseconds limit);

 private:
  void Run();
  // Nothing has a deadline while starting: that has its own.
  std::chrono::milliseconds LimitOf(train::Phase phase) const;

  const train::Board& board_;
  const PhaseLimits limits_;
  const std::function<void(const std::string&)> expired_;
  const pthread_t watched_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

// The calls that a thread of this process is in, innermost first, as far as names are known; for
// one that doesn't answer a sentence. For one caller at a time.
std::string StackOf(pthread_t thread);

}  // namespace ddp::rt::health
