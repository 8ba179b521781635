// Where a run is, and what the learning rate is there. Pure.
#pragma once

#include <cstdint>

#include "runtime/train/config.h"

namespace ddp::rt::train {

// Of the step with this number, counted from 0: linear warm-up from zero, then constant or half a
// cosine down to its floor at `total_steps`.
double LearningRate(const OptimizerConfig& optimizer, const ScheduleConfig& schedule, int64_t step,
                    int64_t total_steps);

// Walks through the steps of all epochs: which places of the global order of samples each takes.
class Walk {
 public:
  struct Place {
    int64_t step = 0;    // steps done
    int64_t epoch = 0;   // of the next step
    int64_t cursor = 0;  // samples of that epoch used, over all ranks
  };

  // `size` samples an epoch, `batch` of them a step (the last of an epoch may take fewer), over all
  // ranks.
  Walk(int64_t size, int64_t batch, int64_t epochs, int64_t max_steps, const Place& start);

  bool done() const { return at_.step >= total_steps_; }
  const Place& at() const { return at_; }
  int64_t total_steps() const { return total_steps_; }

  // The next step takes the places [cursor, end) of the epoch's order.
  int64_t end() const;
  // That step is the last of its epoch, or of the run.
  bool LastOfEpoch() const;
  void Advance();

 private:
  int64_t size_;
  int64_t batch_;
  int64_t total_steps_;
  Place at_;
};

}  // namespace ddp::rt::train
