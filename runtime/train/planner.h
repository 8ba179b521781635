// Which samples a rank trains on in each step, from any place on: the steps of a Walk through one
// global order an epoch (that of PyTorch's DistributedSampler), dealt out to the ranks in turn. The
// order and the steps do not depend on the number of ranks; nothing is padded, so each sample is
// seen exactly once an epoch. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/train/schedule.h"

namespace ddp::rt::train {

class Planner {
 public:
  struct Options {
    int64_t samples = 0;
    int ranks = 1;
    int rank = 0;
    int64_t batch = 1;       // samples a step, over all ranks: a multiple of ranks × accumulate
    int64_t accumulate = 1;  // parts of a step
    uint64_t seed = 0;
  };
  Planner(const Options& options, const Walk& walk);

  // Nothing at the end.
  std::optional<data::StepPlan> Next();

 private:
  const Options options_;
  Walk walk_;
  int64_t drawn_ = -1;  // the epoch that `order_` is of
  std::vector<int64_t> order_;
};

}  // namespace ddp::rt::train
