#include "runtime/train/trainer.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/file.h"
#include "runtime/data/batch.h"
#include "runtime/train/evaluate.h"
#include "runtime/train/state.h"

namespace ddp::rt::train {
namespace {

using Seconds = std::chrono::duration<double>;

// How much the newest step counts in the smoothed speed.
constexpr double kSmoothing = 0.05;

int64_t BatchPerRank(const TrainConfig& config, int ranks) {
  if (config.batch_size % ranks != 0) {
    throw Error(ExitCode::kConfig,
                fmt::format("train.batchSize {} (samples a step, of all ranks together) can't be "
                            "divided among {} ranks; make it a multiple of {}",
                            config.batch_size, ranks, ranks));
  }
  return config.batch_size / ranks;
}

std::string ConfigHash(const Config& config) {
  const std::string text = Fingerprint(config);
  return checkpoint::ToHex(checkpoint::Checksum(std::as_bytes(std::span(text))));
}

InputShape ShapeOf(const data::ImageSet& set) {
  return {.rows = set.rows, .columns = set.columns, .classes = kClasses};
}

// Results for people: standard output carries nothing else.
template <typename... Args>
void Print(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = fmt::format(format, std::forward<Args>(args)...) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Trainer::Trainer(const Config& config, const Datasets& datasets,
                 checkpoint::CheckpointFolder* folder, comm::ProcessGroup& group,
                 store::Store& store, const StopSignals& signals, Board& board)
    : config_(config),
      datasets_(datasets),
      folder_(folder),
      group_(group),
      signals_(signals),
      board_(board),
      model_(MakeModel(config.model, ShapeOf(datasets.train), config.train.seed)),
      optimizer_(MakeOptimizer(config.optimizer, model_->parameters())),
      sampler_({.samples = datasets.train.count,
                .ranks = group.world_size(),
                .rank = group.rank(),
                .seed = config.train.seed}),
      exchange_(group) {
  Resume();
  replicas_ = std::make_unique<DataParallel>(
      model_->parameters(), std::vector<NamedTensor>{}, group, store,
      DataParallelOptions{.timeout =
                              std::chrono::seconds(config.distributed.init_timeout_seconds)});
  if (folder_ != nullptr) {
    checkpoint::SaverOptions options;
    options.saved = [this](const auto& path, const auto& at, Seconds took) {
      board_.checkpoint_seconds.Observe(took.count());
      board_.SetCheckpoint({at.step, UnixTime(), path.string()});
      Log(Level::kInfo, "saved checkpoint path={} seconds={:.3f}", path.string(), took.count());
    };
    // Less than the others wait for this rank, so that they hear the cause.
    options.timeout = std::chrono::seconds(config.distributed.timeout_seconds) * 4 / 5;
    saver_.emplace(*folder_, std::move(options));
  }
  board_.epochs = config.train.epochs;
  board_.total_steps = walk_->total_steps();
  board_.samples_per_step = static_cast<double>(config.train.batch_size);
}

void Trainer::Resume() {
  // From rank 0: found, step, epoch, cursor, and whether there will be checkpoints.
  std::array<int64_t, 5> place{};
  if (folder_ != nullptr) {
    place.back() = 1;
    if (const auto loaded = folder_->LoadNewest()) {
      const auto& at = loaded->position;
      Restore(loaded->model, loaded->path.string(), model_->parameters());
      Restore(loaded->optimizer, loaded->path.string(), optimizer_->state());
      place = {1, at.step, at.epoch, at.cursor, 1};
      saved_step_ = at.step;
      board_.SetCheckpoint({at.step, UnixTime(), loaded->path.string()});
      Log(Level::kInfo, "resuming step={} epoch={} from={}", at.step, at.epoch + 1,
          loaded->path.string());
      if (at.config_hash != ConfigHash(config_)) {
        Log(Level::kWarning,
            "the config differs from the one that {} was made with: going on with the new one",
            loaded->path.string());
      }
    }
  }
  group_.Broadcast(place.data(), sizeof(place), 0, {.name = "place to resume from"})->Wait();
  const auto [found, step, epoch, cursor, has_checkpoints] = place;
  has_checkpoints_ = has_checkpoints != 0;
  if (found != 0) {
    BroadcastTensors(group_, optimizer_->state());
  }
  walk_.emplace(sampler_.size(), BatchPerRank(config_.train, group_.world_size()),
                config_.train.epochs, config_.train.max_steps,
                Walk::Start{.step = step, .epoch = epoch, .used = cursor / group_.world_size()});
  board_.step = step;
  board_.epoch = epoch;
}

End Trainer::Run() {
  board_.phase = Phase::kTraining;
  last_step_end_ = std::chrono::steady_clock::now();
  int64_t drawn = 0;  // the epoch whose order the sampler holds
  while (!walk_->done()) {
    if (drawn != walk_->at().epoch) {
      drawn = walk_->at().epoch;
      sampler_.SetEpoch(drawn);
    }
    const auto start = std::chrono::steady_clock::now();
    const double learning_rate =
        LearningRate(config_.optimizer, config_.schedule, walk_->at().step, walk_->total_steps());
    exchange_.Start(signals_.requested(), loss_);
    Step(learning_rate);
    const Exchange::Result said = exchange_.Finish();
    const bool last_of_epoch = walk_->LastOfEpoch();
    walk_->Advance();
    StepDone(said, learning_rate, std::chrono::steady_clock::now() - start);
    if (last_of_epoch) {
      EndOfEpoch();
    }
    const bool due = config_.checkpoint.every_steps > 0 &&
                     walk_->at().step % config_.checkpoint.every_steps == 0;
    if (due || said.stop || walk_->done()) {
      Save(learning_rate);
    }
    if (said.stop && !walk_->done()) {
      board_.phase = Phase::kStopping;
      FinishSaving();
      Log(Level::kInfo, "stopped as rank {} was asked to, after step={}", said.first_to_stop,
          walk_->at().step);
      return has_checkpoints_ ? End::kStoppedWithCheckpoint : End::kStoppedWithout;
    }
  }
  replicas_->VerifyReplicas();
  FinishSaving();
  PrintResult();
  Log(Level::kInfo, "finished step={}", walk_->at().step);
  return End::kFinished;
}

void Trainer::Step(double learning_rate) {
  const auto& at = walk_->at();
  replicas_->ZeroGrad();
  const auto indices = sampler_.indices().subspan(static_cast<size_t>(at.used),
                                                  static_cast<size_t>(walk_->end() - at.used));
  const data::Batch batch =
      data::MakeBatch(datasets_.train, indices, config_.data.augment, config_.train.seed, at.epoch);
  const at::Tensor loss = at::cross_entropy_loss(model_->Forward(batch.images), batch.labels);
  loss.backward();
  replicas_->EnsureReduced();
  loss_ = loss.item<double>();
  if (!std::isfinite(loss_)) {
    throw Error(ExitCode::kSoftware,
                fmt::format("the loss is {} in step {}: training diverged; lower "
                            "optimizer.learningRate or add schedule.warmupSteps",
                            loss_, at.step + 1));
  }
  optimizer_->Step(learning_rate);
  epoch_loss_ += loss_;
  ++epoch_steps_;
  board_.samples.fetch_add(indices.size(), std::memory_order_relaxed);
}

void Trainer::StepDone(const Exchange::Result& said, double learning_rate,
                       std::chrono::duration<double> took) {
  const int64_t step = walk_->at().step;
  // The exchanged loss is of the step before; in the first step there is none.
  board_.loss = epoch_steps_ > 1 ? said.loss : loss_;
  board_.step = step;
  board_.learning_rate = learning_rate;
  board_.last_step_time = UnixTime();
  board_.step_seconds.Observe(took.count());
  const comm::Stats stats = group_.stats();
  board_.wait_seconds = Seconds(stats.waiting).count();
  board_.reduced_bytes = stats.bytes;
  UpdateSpeed();
  if (config_.train.log_hashes) {
    Log(Level::kInfo, "hash step={} parameters={:016x} loss={:.17g}", step,
        replicas_->ParameterHash(), loss_);
  }
  const int64_t verify = config_.train.verify_every_steps;
  if (verify > 0 && step % verify == 0) {
    replicas_->VerifyReplicas();
  }
}

// Everything counts, evaluation and waiting for checkpoints too, so that the time left is honest.
void Trainer::UpdateSpeed() {
  const auto now = std::chrono::steady_clock::now();
  const double took = Seconds(now - std::exchange(last_step_end_, now)).count();
  ++steps_here_;
  // A plain mean at first, so that the first step does not weigh for long.
  const double weight = std::max(kSmoothing, 1 / static_cast<double>(steps_here_));
  smoothed_seconds_ += weight * (took - smoothed_seconds_);
  board_.samples_per_second = static_cast<double>(config_.train.batch_size) / smoothed_seconds_;
}

void Trainer::EndOfEpoch() {
  std::array<double, 2> sums = {epoch_loss_, static_cast<double>(epoch_steps_)};
  group_
      .AllReduce(sums.data(), sums.size(), comm::DataType::kF64, comm::ReduceOp::kSum,
                 {.name = "epoch loss"})
      ->Wait();
  board_.phase = Phase::kEvaluating;
  const Evaluation test = Evaluate(*model_, datasets_.test, group_);
  board_.phase = Phase::kTraining;
  board_.eval_accuracy = test.accuracy();
  // A run that ends within an epoch (maxSteps) has begun that epoch.
  const int64_t epoch = walk_->at().epoch + (walk_->at().used > 0 ? 1 : 0);
  board_.epoch = walk_->at().epoch;
  if (group_.rank() == 0) {
    Print("epoch {}/{}: step {}, training loss {:.4f}, test accuracy {:.2f} % ({} of {})", epoch,
          config_.train.epochs, walk_->at().step, sums[0] / sums[1], 100 * test.accuracy(),
          test.correct, test.count);
  }
  epoch_loss_ = 0;
  epoch_steps_ = 0;
}

void Trainer::Save(double learning_rate) {
  if (!saver_ || saved_step_ == walk_->at().step) {
    return;
  }
  CheckFinite();
  const auto& at = walk_->at();
  saver_->Start({.position = {.step = at.step,
                              .epoch = at.epoch,
                              .cursor = at.used * group_.world_size(),
                              .seed = config_.train.seed,
                              .world_size = group_.world_size(),
                              .learning_rate = learning_rate,
                              .config_hash = ConfigHash(config_)},
                 .model = Views(model_->parameters()),
                 .optimizer = Views(optimizer_->state())});
  saved_step_ = at.step;
}

// A checkpoint of a diverged model would make every later attempt fail too.
void Trainer::CheckFinite() const {
  for (const NamedTensor& parameter : model_->parameters()) {
    if (!std::isfinite(parameter.tensor.detach().sum().item<double>())) {
      throw Error(ExitCode::kSoftware,
                  fmt::format("parameter {} is not finite after step {}: training diverged; the "
                              "checkpoints before are untouched",
                              parameter.name, walk_->at().step));
    }
  }
}

// All ranks return when the last checkpoint is on stable storage.
void Trainer::FinishSaving() {
  if (saver_) {
    saver_->Finish();
  }
  group_.Barrier({.name = "last checkpoint saved"})->Wait();
}

void Trainer::PrintResult() {
  const bool evaluated = !std::isnan(board_.eval_accuracy.load());
  if (!evaluated) {  // the checkpoint was of the last step already
    board_.eval_accuracy = Evaluate(*model_, datasets_.test, group_).accuracy();
  }
  if (group_.rank() == 0) {
    Print("{} after {} steps: test accuracy {:.2f} %", evaluated ? "finished" : "was finished",
          walk_->at().step, 100 * board_.eval_accuracy);
    if (const auto saved = board_.checkpoint(); saved.step >= 0) {
      Print("checkpoint {}", saved.path);
    }
  }
}

}  // namespace ddp::rt::train
