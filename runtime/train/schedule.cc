#include "runtime/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ddp::rt::train {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

double LearningRate(const OptimizerConfig& optimizer, const ScheduleConfig& schedule, int64_t step,
                    int64_t total_steps) {
  const auto at = static_cast<double>(step);
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  if (step < schedule.warmup_steps) {
    return optimizer.learning_rate * (at + 1) / (warmup + 1);
  }
  if (schedule.name == "constant") {
    return optimizer.learning_rate;
  }
  const double rest = std::max(1.0, static_cast<double>(total_steps) - warmup);
  const double down = (1 + std::cos(std::numbers::pi * (at - warmup) / rest)) / 2;
  return optimizer.learning_rate * (schedule.floor + (1 - schedule.floor) * down);
}

Walk::Walk(int64_t size, int64_t batch, int64_t epochs, int64_t max_steps, const Place& start)
    : size_(size), batch_(batch), at_(start) {
  if (at_.cursor >= size_) {
    at_ = {.step = at_.step, .epoch = at_.epoch + 1, .cursor = 0};
  }
  const int64_t in_epoch = CeilDiv(size_ - at_.cursor, batch_);
  const int64_t after = std::max<int64_t>(0, epochs - at_.epoch - 1) * CeilDiv(size_, batch_);
  total_steps_ = at_.step + (at_.epoch < epochs ? in_epoch + after : 0);
  if (max_steps > 0) {
    total_steps_ = std::min(total_steps_, max_steps);
  }
}

int64_t Walk::end() const { return std::min(at_.cursor + batch_, size_); }

bool Walk::LastOfEpoch() const { return end() == size_ || at_.step + 1 >= total_steps_; }

void Walk::Advance() {
  ++at_.step;
  at_.cursor = end();
  if (at_.cursor == size_) {
    ++at_.epoch;
    at_.cursor = 0;
  }
}

}  // namespace ddp::rt::train
