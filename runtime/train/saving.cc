#include "runtime/train/saving.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/file.h"
#include "runtime/checkpoint/pieces.h"
#include "runtime/data/text.h"
#include "runtime/train/state.h"

namespace ddp::rt::train {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr const char* kAlphabet = "alphabet";
// To the same checkpoint: more is no bad luck.
constexpr int kMostRollbacks = 3;
constexpr std::chrono::milliseconds kLookAgain(200);

std::string ConfigHash(const Config& config) {
  const std::string text = Fingerprint(config);
  return checkpoint::ToHex(checkpoint::Checksum(std::as_bytes(std::span(text))));
}

std::vector<NamedTensor> ModelTensors(const RunContext& run, const Model& model) {
  std::vector<NamedTensor> tensors = model.parameters();
  tensors.insert(tensors.end(), model.buffers().begin(), model.buffers().end());
  if (!run.data.alphabet.empty()) {
    tensors.push_back({kAlphabet, at::tensor(run.data.alphabet, at::kInt)});
  }
  return tensors;
}

// For whoever reads the checkpoint elsewhere; this program goes by the tensor.
checkpoint::State Texts(const RunContext& run) {
  if (run.data.alphabet.empty()) {
    return {};
  }
  std::string vocabulary;
  for (const int32_t character : run.data.alphabet) {
    vocabulary += data::EncodeUtf8(character);
  }
  return {{"data.vocabulary", vocabulary}};
}

// The same tensors, or copies of those that lie on a GPU.
std::vector<NamedTensor> OnHost(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> host;
  host.reserve(tensors.size());
  for (const NamedTensor& item : tensors) {
    host.push_back({item.name, item.tensor.detach().cpu()});
  }
  return host;
}

// From what OnHost gave.
void CopyBack(const std::vector<NamedTensor>& host, const std::vector<NamedTensor>& to) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < to.size(); ++i) {
    if (!to[i].tensor.is_cpu()) {
      to[i].tensor.detach().copy_(host[i].tensor);
    }
  }
}

void RestoreAnywhere(const std::vector<checkpoint::TensorView>& from, const std::string& where,
                     const std::vector<NamedTensor>& to) {
  const std::vector<NamedTensor> host = OnHost(to);
  Restore(from, where, host);
  CopyBack(host, to);
}

}  // namespace

Saving::Saving(const RunContext& run, const Model& model)
    : run_(run),
      model_(ModelTensors(run, model)),
      texts_(Texts(run)),
      sharded_(run.config.optimizer.sharded) {
  if (run_.folder == nullptr) {
    return;
  }
  const std::chrono::milliseconds timeout =
      std::chrono::seconds(run.config.distributed.checkpoint_timeout_seconds);
  if (sharded_) {
    shards_.emplace(run.store, run.group.rank(), run.group.world_size(), timeout * 3 / 5);
  }
  saver_.emplace(*run.folder, Options());
}

checkpoint::SaverOptions Saving::Options() {
  checkpoint::SaverOptions options;
  options.saved = [&board = run_.board](const auto& path, const auto& at, Seconds took) {
    board.checkpoint_seconds.Observe(took.count());
    board.SetCheckpoint({at.step, UnixTime(), path.string()});
    Log(Level::kInfo, "saved checkpoint path={} seconds={:.3f}", path.string(), took.count());
  };
  options.failed = [&board = run_.board](const std::string& why) {
    board.checkpoint_failures.fetch_add(1, std::memory_order_relaxed);
    Log(Level::kError, "this checkpoint is NOT saved: {}; those before are untouched", why);
  };
  options.failures_end_the_run = run_.config.checkpoint.on_failure == "fail";
  // Less than the others wait for this rank, so that they hear the cause.
  options.timeout = std::chrono::milliseconds(
                        std::chrono::seconds(run_.config.distributed.checkpoint_timeout_seconds)) *
                    4 / 5;
  options.shards = shards_ ? &*shards_ : nullptr;
  return options;
}

// On rank 0. Keeps what is loaded until the state has been restored too.
bool Saving::Load() {
  // Without shards of its own it needs all of those that it finds.
  loaded_ = run_.folder->LoadNewest({.world_size = sharded_ ? run_.group.world_size() : 0});
  if (!loaded_) {
    return false;
  }
  const at::Tensor alphabet =
      run_.data.alphabet.empty() ? at::Tensor() : model_.back().tensor.clone();
  RestoreAnywhere(loaded_->model, loaded_->path.string(), model_);
  if (alphabet.defined()) {
    CheckAlphabet(alphabet);
  }
  return true;
}

void Saving::CheckAlphabet(const at::Tensor& wanted) const {
  if (!model_.back().tensor.equal(wanted)) {
    throw Error(ExitCode::kConfig,
                fmt::format("checkpoint {} was made with text of other characters than that of "
                            "data.path: use another checkpoint.dir, or the text that it was made "
                            "with",
                            loaded_->path.string()));
  }
}

Walk::Place Saving::ResumeModel() {
  // From rank 0: found, step, epoch, cursor, and whether there will be checkpoints.
  std::array<int64_t, 5> place{};
  if (run_.folder != nullptr && writes_model()) {
    place.back() = 1;
    if (Load()) {
      const auto& at = loaded_->position;
      place = {1, at.step, at.epoch, at.cursor, 1};
      saved_step_ = at.step;
      run_.board.SetCheckpoint({at.step, UnixTime(), loaded_->path.string()});
      Log(Level::kInfo, "resuming step={} epoch={} from={}", at.step, at.epoch + 1,
          loaded_->path.string());
      if (at.config_hash != ConfigHash(run_.config)) {
        Log(Level::kWarning,
            "the config differs from the one that {} was made with: going on with the new one",
            loaded_->path.string());
      }
    }
  }
  run_.group.Broadcast(place.data(), sizeof(place), 0, {.name = "place to resume from"})->Wait();
  const auto [found, step, epoch, cursor, enabled] = place;
  found_ = found != 0;
  enabled_ = enabled != 0;
  saved_step_ = found_ ? step : -1;
  return {.step = step, .epoch = epoch, .cursor = cursor};
}

void Saving::ResumeState(std::vector<NamedTensor> state) {
  state_ = std::move(state);
  if (found_) {
    RestoreState();
  }
  if (saver_) {
    const auto model = writes_model() ? OnHost(model_) : std::vector<NamedTensor>();
    saver_->Reserve({.position = {}, .model = Views(model), .optimizer = Views(OnHost(state_))});
  }
}

void Saving::RestoreState() {
  if (sharded_) {
    RestoreOwnState();
    loaded_.reset();
    return;
  }
  if (loaded_) {
    const auto joined = checkpoint::JoinPieces(loaded_->optimizer, loaded_->model);
    RestoreAnywhere(joined.tensors, loaded_->path.string(), state_);
    loaded_.reset();
  }
  BroadcastTensors(run_.device_group, state_);
}

// Each rank from the files; of a checkpoint of as many ranks and the same buckets it needs only its
// own.
void Saving::RestoreOwnState() {
  const auto path = run_.folder->path() / checkpoint::FolderName(saved_step_);
  const int rank = run_.group.rank();
  const std::vector<NamedTensor> host = OnHost(state_);
  auto loaded = checkpoint::LoadOptimizer(path, {rank, run_.group.world_size()});
  if (HasAll(loaded.optimizer, host)) {
    Restore(loaded.optimizer, path.string(), host);
  } else {
    loaded = checkpoint::LoadOptimizer(path, {rank, 0});
    const auto joined = checkpoint::JoinPieces(loaded.optimizer, {});
    RestorePieces(joined.tensors, path.string(), host);
  }
  CopyBack(host, state_);
}

void Saving::Save(const Walk::Place& at, double learning_rate) {
  if (!enabled_ || saved_step_ == at.step) {
    return;
  }
  saved_step_ = at.step;
  const Phase phase = run_.board.phase.exchange(Phase::kSaving);
  const auto start = std::chrono::steady_clock::now();
  AwaitSavers();
  if (saver_) {
    CheckFinite(at);
    const auto model = writes_model() ? OnHost(model_) : std::vector<NamedTensor>();
    const auto state = OnHost(state_);
    saver_->Start({.position = {.step = at.step,
                                .epoch = at.epoch,
                                .cursor = at.cursor,
                                .seed = run_.config.train.seed,
                                .world_size = run_.group.world_size(),
                                .learning_rate = learning_rate,
                                .config_hash = ConfigHash(run_.config)},
                   .state = texts_,
                   .model = Views(model),
                   .optimizer = Views(state)});
  }
  // The others wait under the checkpoint's deadline, not the next step's.
  run_.group
      .Barrier(
          {.name = "checkpoint begun",
           .timeout = std::chrono::seconds(run_.config.distributed.checkpoint_timeout_seconds)})
      ->Wait();
  run_.board.checkpoint_stall_seconds.Observe(
      Seconds(std::chrono::steady_clock::now() - start).count());
  run_.board.phase = phase;
}

// A checkpoint of a diverged model would make every later attempt fail too.
void Saving::CheckFinite(const Walk::Place& at) const {
  if (!writes_model()) {
    return;
  }
  for (const NamedTensor& item : model_) {
    if (!std::isfinite(item.tensor.detach().sum().item<double>())) {
      throw Error(ExitCode::kSoftware,
                  fmt::format("parameter {} is not finite after step {}: training diverged; the "
                              "checkpoints before are untouched",
                              item.name, at.step));
    }
  }
}

void Saving::Finish() {
  const Phase phase = run_.board.phase;
  if (phase != Phase::kStopping) {
    run_.board.phase = Phase::kSaving;
  }
  AwaitSavers();
  if (saver_) {
    saver_->Finish();
  }
  run_.group
      .Barrier(
          {.name = "last checkpoint saved",
           .timeout = std::chrono::seconds(run_.config.distributed.checkpoint_timeout_seconds)})
      ->Wait();
  run_.board.phase = phase;
}

// Together: a rank that is lost while another one's disk is slow, or waits for its part, is
// noticed.
void Saving::AwaitSavers() {
  int32_t busy = 0;
  do {
    busy = saver_ && saver_->BusyAfter(kLookAgain) ? 1 : 0;
    run_.group
        .AllReduce(
            &busy, 1, comm::DataType::kI32, comm::ReduceOp::kMax,
            {.name = "checkpoint before",
             .timeout = std::chrono::seconds(run_.config.distributed.checkpoint_timeout_seconds)})
        ->Wait();
  } while (busy != 0);
}

void Saving::Abandon(const std::string& why) {
  if (shards_) {
    shards_->Abandon(why);
  }
}

void Saving::RollBack() {
  Finish();
  int64_t step = 0;
  if (run_.folder != nullptr && writes_model()) {
    if (!Load()) {
      throw Error(ExitCode::kSoftware,
                  "gradients are not finite, and there is no checkpoint to go back to: lower "
                  "optimizer.learningRate, or checkpoint.everySteps");
    }
    step = loaded_->position.step;
    Log(Level::kWarning, "gradients are not finite: model and optimizer go back to {}, data go on",
        loaded_->path.string());
  }
  run_.group.Broadcast(&step, sizeof(step), 0, {.name = "step to go back to"})->Wait();
  saved_step_ = step;
  rollbacks_ = std::exchange(rolled_back_to_, step) == step ? rollbacks_ + 1 : 1;
  if (rollbacks_ > kMostRollbacks) {
    throw Error(ExitCode::kSoftware,
                fmt::format("gradients are not finite after {} returns to the checkpoint of step "
                            "{}: training diverges again and again; lower optimizer.learningRate",
                            kMostRollbacks, step));
  }
  std::vector<NamedTensor> model = model_;
  if (!run_.data.alphabet.empty()) {
    model.pop_back();
  }
  BroadcastTensors(run_.device_group, model);
  RestoreState();
}

}  // namespace ddp::rt::train
