#include "runtime/train/planner.h"

#include "runtime/base/error.h"
#include "runtime/data/sampler.h"

namespace ddp::rt::train {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

Planner::Planner(const Options& options, const Walk& walk) : options_(options), walk_(walk) {
  DDP_RT_CHECK(options.batch % (options.ranks * options.accumulate) == 0,
               "checked with the config");
}

std::optional<data::StepPlan> Planner::Next() {
  if (walk_.done()) {
    return std::nullopt;
  }
  const Walk::Place& at = walk_.at();
  if (drawn_ != at.epoch) {
    drawn_ = at.epoch;
    order_ = data::EpochOrder(options_.samples, /*shuffle=*/true, options_.seed, at.epoch);
  }
  data::StepPlan plan{.step = at.step,
                      .samples = {},
                      .total = walk_.end() - at.cursor,
                      .part = options_.batch / options_.ranks / options_.accumulate,
                      .parts = 1,
                      .draw = {.seed = options_.seed, .epoch = at.epoch}};
  for (int64_t place = at.cursor + options_.rank; place < walk_.end(); place += options_.ranks) {
    plan.samples.push_back(order_[static_cast<size_t>(place)]);
  }
  // As many on all ranks, though the last ranks' may be empty at an epoch's end.
  plan.parts = CeilDiv(CeilDiv(plan.total, options_.ranks), plan.part);
  walk_.Advance();
  return plan;
}

}  // namespace ddp::rt::train
