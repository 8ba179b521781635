// What a run knows about itself at this moment: written by the training thread (and the one that
// saves checkpoints), read by the threads that answer /metrics and /progress. Atomics only, so a
// reader never holds up a step; values that belong together may be one step apart.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>

namespace ddp::rt::train {

// Counts of observations at most as large as each bound, and above the last.
class AtomicHistogram {
 public:
  static constexpr std::array<double, 17> kBounds = {0.00001, 0.0001, 0.0005, 0.001, 0.0025, 0.005,
                                                     0.01,    0.025,  0.05,   0.1,   0.25,   0.5,
                                                     1,       2.5,    5,      10,    30};

  void Observe(double value) {
    size_t bucket = 0;
    while (bucket < kBounds.size() && value > kBounds[bucket]) {
      ++bucket;
    }
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  // Of one bucket alone, not cumulated.
  uint64_t count(size_t bucket) const { return counts_[bucket].load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<double> sum_ = 0;
};

// Each but the first has its own deadline. kSaving: the training thread stands still for a
// checkpoint.
enum class Phase { kStarting, kTraining, kEvaluating, kSaving, kStopping };
inline constexpr std::array<const char*, 5> kPhaseNames = {"starting", "training", "evaluating",
                                                           "saving", "stopping"};
inline const char* PhaseName(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

// Seconds since 1970.
inline double UnixTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Board {
 public:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::atomic<Phase> phase = Phase::kStarting;
  std::atomic<int64_t> step = 0;
  std::atomic<int64_t> total_steps = 0;
  std::atomic<int64_t> epoch = 0;  // finished epochs
  std::atomic<int64_t> epochs = 0;
  std::atomic<double> loss = kNone;  // mean over ranks
  std::atomic<double> learning_rate = 0;
  std::atomic<double> samples_per_second = 0;  // all ranks together, smoothed
  std::atomic<double> samples_per_step = 0;    // all ranks together
  std::atomic<double> eval_accuracy = kNone;   // 0 to 1
  std::atomic<double> eval_loss = kNone;       // mean over labels
  std::atomic<double> last_step_time = kNone;  // UnixTime
  std::atomic<double> wait_seconds = 0;        // in collectives, until the last rank had come
  std::atomic<uint64_t> samples = 0;           // of this rank
  std::atomic<uint64_t> reduced_bytes = 0;
  std::atomic<double> gradient_norm = kNone;  // global, before clipping
  std::atomic<uint64_t> skipped_steps = 0;    // for gradients that were not finite
  std::atomic<uint64_t> hash_checks = 0;      // of parameters, among all ranks
  std::atomic<uint64_t> hash_mismatches = 0;
  std::atomic<uint64_t> checkpoint_failures = 0;
  AtomicHistogram step_seconds;
  // Parts of a step: waiting for the next batch; communication that backward did not hide.
  AtomicHistogram data_wait_seconds;
  AtomicHistogram forward_seconds;
  AtomicHistogram backward_seconds;
  AtomicHistogram optimizer_seconds;
  AtomicHistogram exposed_communication_seconds;
  AtomicHistogram checkpoint_seconds;
  AtomicHistogram checkpoint_stall_seconds;  // of that: the training thread stood still

  struct Checkpoint {
    int64_t step = -1;  // -1 = none yet
    double time = 0;    // UnixTime
    std::string path;
  };
  void SetCheckpoint(Checkpoint checkpoint) {
    const std::lock_guard lock(mutex_);
    checkpoint_ = std::move(checkpoint);
  }
  Checkpoint checkpoint() const {
    const std::lock_guard lock(mutex_);
    return checkpoint_;
  }
  // "shm", "tcp", …: "" before the ranks are connected.
  void SetTransport(std::string transport) {
    const std::lock_guard lock(mutex_);
    transport_ = std::move(transport);
  }
  std::string transport() const {
    const std::lock_guard lock(mutex_);
    return transport_;
  }

 private:
  mutable std::mutex mutex_;  // held for a copy of a string, once per checkpoint and reader
  Checkpoint checkpoint_;
  std::string transport_;
};

}  // namespace ddp::rt::train
