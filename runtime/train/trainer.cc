#include "runtime/train/trainer.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/data/text.h"
#include "runtime/train/gpt.h"

namespace ddp::rt::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTemperature = 0.8;  // of text printed at the end

void CheckBatch(const RunContext& run) {
  const int ranks = run.group.world_size();
  const TrainConfig& train = run.config.train;
  if (train.batch_size % (ranks * train.accumulate) != 0) {
    throw Error(ExitCode::kConfig,
                fmt::format("train.batchSize {} (samples a step, of all ranks together) can't be "
                            "divided among {} ranks{}; make it a multiple of {}",
                            train.batch_size, ranks,
                            train.accumulate == 1
                                ? ""
                                : fmt::format(" times train.accumulate {}", train.accumulate),
                            ranks * train.accumulate));
  }
  if (run.config.data.drop_last && run.data.train->size() < train.batch_size) {
    throw Error(ExitCode::kConfig,
                fmt::format("data.dropLast leaves nothing of {} samples with train.batchSize {}",
                            run.data.train->size(), train.batch_size));
  }
}

// Results for people: standard output carries nothing else.
template <typename... Args>
void Print(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = fmt::format(format, std::forward<Args>(args)...) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Trainer::Trainer(const RunContext& run)
    : run_(run),
      config_(run.config),
      model_(
          MakeModel(run.config.model, run.data.train->shape(), run.config.train.seed, run.device)),
      saving_(run_, *model_),
      exchange_(run.group),
      log_(run_) {
  CheckBatch(run_);
  const Walk::Place start = saving_.ResumeModel();
  if (!saving_.enabled() && config_.train.non_finite == "rollback") {
    throw Error(ExitCode::kConfig,
                "train.nonFinite is rollback, but there are no checkpoints to go back to: set "
                "checkpoint.dir or DDP_CHECKPOINT_DIR");
  }
  stepper_ = std::make_unique<Stepper>(run_, *model_);
  saving_.ResumeState(stepper_->state());
  MakeWalkAndLoader(start);
}

void Trainer::MakeWalkAndLoader(const Walk::Place& start) {
  const TrainConfig& train = config_.train;
  const int64_t samples = run_.data.train->size();
  const int64_t used = samples - (config_.data.drop_last ? samples % train.batch_size : 0);
  walk_.emplace(used, train.batch_size, train.epochs, train.max_steps, start);
  planner_.emplace(Planner::Options{.samples = samples,
                                    .ranks = run_.group.world_size(),
                                    .rank = run_.group.rank(),
                                    .batch = train.batch_size,
                                    .accumulate = train.accumulate,
                                    .seed = train.seed},
                   *walk_);
  loader_.emplace(
      *run_.data.train, [this] { return planner_->Next(); },
      data::LoaderOptions{.threads = config_.data.loader_threads,
                          .ahead = config_.data.prefetch_steps,
                          .pinned = run_.device.is_cuda(),
                          .timeout = std::chrono::milliseconds(std::chrono::seconds(
                                         config_.distributed.timeout_seconds)) *
                                     4 / 5});
}

End Trainer::Run() {
  log_.Begin(*walk_);
  bool stop = false;
  while (!walk_->done() && !stop) {
    stop = Step();
  }
  if (!walk_->done()) {
    run_.board.phase = Phase::kStopping;
    saving_.Finish();
    Log(Level::kInfo, "stopped as rank {} was asked to, after step={}", first_to_stop_,
        walk_->at().step);
    return saving_.enabled() ? End::kStoppedWithCheckpoint : End::kStoppedWithout;
  }
  VerifyReplicas();
  saving_.Finish();
  PrintResult();
  PrintSample();
  Log(Level::kInfo, "finished step={}", walk_->at().step);
  return End::kFinished;
}

// Whether the run is to stop.
bool Trainer::Step() {
  const auto start = Clock::now();
  const double learning_rate =
      LearningRate(config_.optimizer, config_.schedule, walk_->at().step, walk_->total_steps());
  exchange_.Start(run_.signals.requested(), loss_);
  const data::LoadedStep step = loader_->Next();
  const auto loaded = Clock::now();
  DDP_RT_CHECK(step.plan.step == walk_->at().step, "the loader's steps are the loop's");
  StepReport report = stepper_->Run(step, learning_rate);
  report.data_wait = loaded - start;
  loss_ = report.loss;
  if (std::isfinite(loss_)) {
    const auto samples = static_cast<double>(step.plan.total);
    epoch_loss_ += loss_ * samples;
    epoch_samples_ += samples;
  }
  const Exchange::Result said = exchange_.Finish();
  const bool last_of_epoch = walk_->LastOfEpoch();
  walk_->Advance();
  log_.StepDone(walk_->at(), step.plan, report, said, learning_rate, Clock::now() - start);
  if (report.roll_back) {
    saving_.RollBack();
  }
  if (said.stop) {
    first_to_stop_ = said.first_to_stop;
  }
  if (last_of_epoch) {
    EndOfEpoch();
  }
  AfterStep(said.stop, learning_rate);
  return said.stop;
}

void Trainer::AfterStep(bool stop, double learning_rate) {
  const int64_t step = walk_->at().step;
  const auto every = [&](int64_t steps) { return steps > 0 && step % steps == 0; };
  if (config_.train.log_hashes) {
    Log(Level::kInfo, "hash step={} parameters={:016x} loss={:.17g}", step,
        stepper_->replicas().ParameterHash(), loss_);
  }
  if (every(config_.train.verify_every_steps)) {
    VerifyReplicas();
  }
  if (every(config_.train.evaluate_every_steps) && walk_->at().cursor > 0 && !walk_->done()) {
    MidEpoch();
  }
  if (every(config_.checkpoint.every_steps) || stop || walk_->done()) {
    stepper_->ShareBuffers();
    saving_.Save(walk_->at(), learning_rate);
  }
}

// A mismatch ends the run: from then on the ranks would train different models.
void Trainer::VerifyReplicas() {
  run_.board.hash_checks.fetch_add(1, std::memory_order_relaxed);
  try {
    stepper_->replicas().VerifyReplicas();
  } catch (const Error&) {
    run_.board.hash_mismatches.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
}

// Of images what is right, of tokens how well the next one is foreseen.
std::string Trainer::Describe(const Evaluation& test) const {
  if (run_.data.test->shape().tokens()) {
    return fmt::format("test loss {:.7f} a token, perplexity {:.3f} ({} tokens)", test.loss,
                       std::exp(test.loss), test.count);
  }
  return fmt::format("test accuracy {:.2f} % ({} of {}), test loss {:.7f}", 100 * test.accuracy(),
                     test.correct, test.count, test.loss);
}

Evaluation Trainer::EvaluateNow() {
  run_.board.phase = Phase::kEvaluating;
  stepper_->ShareBuffers();
  const Evaluation test = Evaluate(run_, *model_, *run_.data.test);
  run_.board.phase = Phase::kTraining;
  run_.board.eval_accuracy = test.accuracy();
  run_.board.eval_loss = test.loss;
  evaluation_ = test;
  return test;
}

void Trainer::MidEpoch() {
  const Evaluation test = EvaluateNow();
  if (run_.group.rank() == 0) {
    Print("step {}: {}", walk_->at().step, Describe(test));
  }
}

void Trainer::EndOfEpoch() {
  std::array<double, 2> sums = {epoch_loss_, epoch_samples_};
  run_.group
      .AllReduce(sums.data(), sums.size(), comm::DataType::kF64, comm::ReduceOp::kSum,
                 {.name = "epoch loss"})
      ->Wait();
  const Evaluation test = EvaluateNow();
  // A run that ends within an epoch (maxSteps) has begun that epoch.
  const int64_t epoch = walk_->at().epoch + (walk_->at().cursor > 0 ? 1 : 0);
  run_.board.epoch = walk_->at().epoch;
  if (run_.group.rank() == 0) {
    Print("epoch {}/{}: step {}, training loss {:.4f}, {}", epoch, config_.train.epochs,
          walk_->at().step, sums[0] / sums[1], Describe(test));
  }
  epoch_loss_ = 0;
  epoch_samples_ = 0;
}

void Trainer::PrintResult() {
  const bool here = evaluation_.has_value();
  if (!here) {  // the checkpoint was of the last step already
    EvaluateNow();
  }
  if (run_.group.rank() != 0) {
    return;
  }
  Print("{} after {} steps: {}", here ? "finished" : "was finished", walk_->at().step,
        Describe(*evaluation_));
  if (const auto saved = run_.board.checkpoint(); saved.step >= 0) {
    Print("checkpoint {}", saved.path);
  }
}

// Text that the model writes, on rank 0; the others wait.
void Trainer::PrintSample() {
  if (config_.train.generate_tokens == 0 || run_.data.alphabet.empty()) {
    return;
  }
  if (run_.group.rank() == 0) {
    const auto tokens = Generate(*model_, {0}, config_.train.generate_tokens, config_.model.context,
                                 kTemperature, config_.train.seed);
    std::string text;
    for (size_t i = 1; i < tokens.size(); ++i) {
      text += data::EncodeUtf8(run_.data.alphabet[static_cast<size_t>(tokens[i])]);
    }
    Print("the model writes:\n{}", text);
  }
  run_.group.Barrier({.name = "text generated"})->Wait();
}

}  // namespace ddp::rt::train
