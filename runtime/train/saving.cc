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
#include "runtime/train/state.h"

namespace ddp::rt::train {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr const char* kAlphabet = "alphabet";

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

// The same tensors, or copies of those that lie on a GPU.
std::vector<NamedTensor> OnHost(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> host;
  host.reserve(tensors.size());
  for (const NamedTensor& item : tensors) {
    host.push_back({item.name, item.tensor.detach().cpu()});
  }
  return host;
}

void RestoreAnywhere(const std::vector<checkpoint::TensorView>& from, const std::string& where,
                     const std::vector<NamedTensor>& to) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> host = OnHost(to);
  Restore(from, where, host);
  for (size_t i = 0; i < to.size(); ++i) {
    if (!to[i].tensor.is_cpu()) {
      to[i].tensor.detach().copy_(host[i].tensor);
    }
  }
}

}  // namespace

Saving::Saving(const RunContext& run, const Model& model)
    : run_(run), model_(ModelTensors(run, model)) {
  if (run_.folder == nullptr) {
    return;
  }
  checkpoint::SaverOptions options;
  options.saved = [&board = run.board](const auto& path, const auto& at, Seconds took) {
    board.checkpoint_seconds.Observe(took.count());
    board.SetCheckpoint({at.step, UnixTime(), path.string()});
    Log(Level::kInfo, "saved checkpoint path={} seconds={:.3f}", path.string(), took.count());
  };
  // Less than the others wait for this rank, so that they hear the cause.
  options.timeout = std::chrono::seconds(run.config.distributed.timeout_seconds) * 4 / 5;
  saver_.emplace(*run.folder, std::move(options));
}

// On rank 0. Keeps what is loaded until the state has been restored too.
bool Saving::Load() {
  loaded_ = run_.folder->LoadNewest();
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
  if (run_.folder != nullptr) {
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
  return {.step = step, .epoch = epoch, .cursor = cursor};
}

void Saving::ResumeState(std::vector<NamedTensor> state) {
  state_ = std::move(state);
  if (found_) {
    RestoreState();
  }
}

void Saving::RestoreState() {
  if (loaded_) {
    RestoreAnywhere(loaded_->optimizer, loaded_->path.string(), state_);
    loaded_.reset();
  }
  BroadcastTensors(run_.device_group, state_);
}

void Saving::Save(const Walk::Place& at, double learning_rate) {
  if (!saver_ || saved_step_ == at.step) {
    return;
  }
  CheckFinite(at);
  const auto model = OnHost(model_);
  const auto state = OnHost(state_);
  saver_->Start({.position = {.step = at.step,
                              .epoch = at.epoch,
                              .cursor = at.cursor,
                              .seed = run_.config.train.seed,
                              .world_size = run_.group.world_size(),
                              .learning_rate = learning_rate,
                              .config_hash = ConfigHash(run_.config)},
                 .model = Views(model),
                 .optimizer = Views(state)});
  saved_step_ = at.step;
}

// A checkpoint of a diverged model would make every later attempt fail too.
void Saving::CheckFinite(const Walk::Place& at) const {
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
  if (saver_) {
    saver_->Finish();
  }
  run_.group.Barrier({.name = "last checkpoint saved"})->Wait();
}

void Saving::RollBack() {
  if (saver_) {
    saver_->Finish();
    if (!Load()) {
      throw Error(ExitCode::kSoftware,
                  "gradients are not finite, and there is no checkpoint to go back to: lower "
                  "optimizer.learningRate, or checkpoint.everySteps");
    }
    Log(Level::kWarning, "gradients are not finite: model and optimizer go back to {}, data go on",
        loaded_->path.string());
  }
  std::vector<NamedTensor> model = model_;
  if (!run_.data.alphabet.empty()) {
    model.pop_back();
  }
  BroadcastTensors(run_.device_group, model);
  RestoreState();
}

}  // namespace ddp::rt::train
