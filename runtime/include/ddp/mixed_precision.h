// 16-bit autocast, and scaling of the loss for float16.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ddp/optimizer.h"
#include "runtime/ddp/autocast.h"
#include "runtime/ddp/loss_scaler.h"

namespace ddp {

// While one lives, matrix products and convolutions of this thread compute in 16 bits:
//   { const ddp::Autocast autocast(device.type()); loss = criterion(model(x), y); }
//   loss.backward();
using rt::Autocast;

using GradScalerOptions = rt::LossScalerOptions;

// torch.amp.GradScaler's semantics; whether a step is left out is agreed by all ranks.
//   scaler.Scale(loss).backward();
//   scaler.Unscale(model); ClipGradNorm(model, 1.0);       // only to clip
//   scaler.Step(model, optimizer);                         // does nothing if a gradient overflowed
//   scaler.Update();
class GradScaler {
 public:
  explicit GradScaler(const Replicas& model, const GradScalerOptions& options = {})
      : scaler_(options, model.engine().device()) {}

  at::Tensor Scale(const at::Tensor& loss) const { return scaler_.Scale(loss); }
  // Divides the gradients by the scale; at most once a step. A collective.
  void Unscale(Replicas& model) {
    scaler_.Unscale(model.engine());
    unscaled_ = true;
  }

  // A collective. Returns whether the step was taken. With one of our optimizers unscaling, and
  // clipping to `max_norm`, ride in its kernel.
  bool Step(Replicas& model, Optimizer& optimizer, double learning_rate,
            std::optional<double> max_norm = std::nullopt) {
    optimizer.Step(learning_rate, scaler_.PrepareStep(model.engine(), max_norm));
    return !scaler_.FoundInf();
  }
  // The same with an optimizer of torch::optim.
  template <typename TorchOptimizer>
  bool Step(Replicas& model, TorchOptimizer& optimizer) {
    if (!std::exchange(unscaled_, false)) {
      scaler_.Unscale(model.engine());
    }
    if (scaler_.FoundInf()) {
      return false;
    }
    optimizer.step();
    return true;
  }
  // Moves the scale: once after every step.
  void Update() {
    scaler_.Update();
    unscaled_ = false;
  }

  double scale() const { return scaler_.scale(); }
  std::int64_t skipped_steps() const { return scaler_.skipped_steps(); }
  // For Checkpointer::Keep.
  std::vector<rt::NamedTensor> state() const { return scaler_.state(); }

 private:
  rt::LossScaler scaler_;
  bool unscaled_ = false;
};

}  // namespace ddp
