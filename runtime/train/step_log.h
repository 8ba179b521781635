// What a run tells about each step: the board for /metrics and /progress, and the log lines that a
// config can ask for. Owned by the training thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/train/exchange.h"
#include "runtime/train/run_context.h"
#include "runtime/train/schedule.h"
#include "runtime/train/stepper.h"

namespace ddp::rt::train {

class StepLog {
 public:
  explicit StepLog(const RunContext& run) : run_(run) {}

  void Begin(const Walk& walk);
  // After each step; `done` is the place after it.
  void StepDone(const Walk::Place& done, const data::StepPlan& plan, const StepReport& report,
                const Exchange::Result& said, double learning_rate, std::chrono::nanoseconds took);

 private:
  void UpdateSpeed(int64_t samples);

  const RunContext& run_;
  std::chrono::steady_clock::time_point last_step_end_;
  double smoothed_seconds_ = 0;  // a sample takes, all ranks together
  int64_t steps_here_ = 0;       // of this process
};

}  // namespace ddp::rt::train
