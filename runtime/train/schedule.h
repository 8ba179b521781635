// Where a run is, and what the learning rate is there. Pure.
#pragma once

#include <cstdint>

#include "runtime/train/config.h"

namespace ddp::rt::train {

// Of the step with this number, counted from 0: linear warm-up from zero, then constant or half a
// cosine down to zero at `total_steps`.
double LearningRate(const OptimizerConfig& optimizer, const ScheduleConfig& schedule, int64_t step,
                    int64_t total_steps);

// Walks through the steps of all epochs: which of a rank's samples each step takes.
class Walk {
 public:
  struct Start {
    int64_t step = 0;
    int64_t epoch = 0;
    int64_t used = 0;  // samples of the epoch that each rank has used
  };

  // `size` samples an epoch and rank, `batch` of them a step (the last of an epoch may take fewer).
  Walk(int64_t size, int64_t batch, int64_t epochs, int64_t max_steps, const Start& start);

  bool done() const { return at_.step >= total_steps_; }
  const Start& at() const { return at_; }
  int64_t total_steps() const { return total_steps_; }

  // The next step takes the samples [used, end).
  int64_t end() const;
  // That step is the last of its epoch, or of the run.
  bool LastOfEpoch() const;
  void Advance();

 private:
  int64_t size_;
  int64_t batch_;
  int64_t total_steps_;
  Start at_;
};

}  // namespace ddp::rt::train
