#include "runtime/train/step_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"

namespace ddp::rt::train {
namespace {

using Seconds = std::chrono::duration<double>;

// How much the newest step counts in the smoothed speed.
constexpr double kSmoothing = 0.05;

}  // namespace

void StepLog::Begin(const Walk& walk) {
  Board& board = run_.board;
  board.epochs = run_.config.train.epochs;
  board.total_steps = walk.total_steps();
  board.samples_per_step = static_cast<double>(run_.config.train.batch_size);
  board.step = walk.at().step;
  board.epoch = walk.at().epoch;
  board.phase = Phase::kTraining;
  last_step_end_ = std::chrono::steady_clock::now();
}

void StepLog::StepDone(const Walk::Place& done, const data::StepPlan& plan,
                       const StepReport& report, const Exchange::Result& said, double learning_rate,
                       std::chrono::nanoseconds took) {
  Board& board = run_.board;
  // The exchanged loss is of the step before; in the first step there is none.
  board.loss = ++steps_here_ > 1 ? said.loss : report.loss;
  board.step = done.step;
  board.learning_rate = learning_rate;
  board.last_step_time = UnixTime();
  board.step_seconds.Observe(Seconds(took).count());
  board.data_wait_seconds.Observe(Seconds(report.data_wait).count());
  board.forward_seconds.Observe(Seconds(report.forward).count());
  board.backward_seconds.Observe(Seconds(report.backward).count());
  board.exposed_communication_seconds.Observe(Seconds(report.exposed).count());
  board.optimizer_seconds.Observe(Seconds(report.optimizer).count());
  if (report.gradient_norm) {
    board.gradient_norm = *report.gradient_norm;
  }
  if (report.skipped) {
    board.skipped_steps.fetch_add(1, std::memory_order_relaxed);
  }
  board.samples.fetch_add(plan.samples.size(), std::memory_order_relaxed);
  const comm::Stats stats = run_.device_group.stats();
  board.wait_seconds = Seconds(stats.waiting).count();
  board.reduced_bytes = stats.bytes;
  UpdateSpeed(plan.total);
  if (run_.config.train.log_samples) {
    Log(Level::kInfo, "samples step={} epoch={} of={}", done.step, plan.draw.epoch,
        fmt::join(plan.samples, ","));
  }
  if (steps_here_ > 1 && said.first_not_finite >= 0) {
    Log(Level::kWarning, "in step={} the loss of rank {} was not finite", done.step - 1,
        said.first_not_finite);
  }
}

// Everything counts, evaluation and waiting for checkpoints too, so that the time left is honest.
void StepLog::UpdateSpeed(int64_t samples) {
  const auto now = std::chrono::steady_clock::now();
  const double took = Seconds(now - std::exchange(last_step_end_, now)).count();
  // A plain mean at first, so that the first step does not weigh for long.
  const double weight = std::max(kSmoothing, 1 / static_cast<double>(steps_here_));
  smoothed_seconds_ += weight * (took / static_cast<double>(samples) - smoothed_seconds_);
  run_.board.samples_per_second = 1 / smoothed_seconds_;
}

}  // namespace ddp::rt::train
