// Loss scaling for float16 (and bfloat16) autocast, with the semantics of torch.amp.GradScaler: the
// loss is multiplied by a scale so that small gradients survive; a step whose gradients overflowed
// is left out and the scale halved; after enough good steps it is doubled. Whether a step is left
// out is agreed by all ranks. Collective calls; owned by the training thread.
//
//   scaler.Scale(loss).backward();
//   optimizer.Step(learning_rate, scaler.PrepareStep(replicas, /*max_norm=*/1.0));
//   scaler.Update();
//
// PrepareStep reads the gradients once: finding overflow, unscaling and clipping ride in that pass
// and in the optimizer's own. For an optimizer that knows nothing of it:
//
//   scaler.Unscale(replicas);            // .grad is the mean again; clip if you like
//   if (!scaler.FoundInf()) optimizer.step();
//   scaler.Update();
#pragma once

#include <optional>
#include <vector>

#include "runtime/ddp/data_parallel.h"
#include "runtime/ddp/gradient_scale.h"

namespace ddp::rt {

struct LossScalerOptions {
  bool enabled = true;  // off: the scale is 1 for ever, but overflow is still found
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps in a row without overflow
};

class LossScaler {
 public:
  // Error(kConfig) says which option is out of range.
  LossScaler(LossScalerOptions options, const at::Device& device);

  at::Tensor Scale(const at::Tensor& loss) const;

  // Divides all gradients by the scale, once a step; finds overflow.
  void Unscale(const DataParallel& engine);
  // For optimizers that take a GradientScale: also clips to `max_norm`, if given. The gradients
  // themselves are untouched. After Unscale only what it found is handed on.
  GradientScale PrepareStep(const DataParallel& engine,
                            std::optional<double> max_norm = std::nullopt);
  // Of the last PrepareStep: the norm that the unscaled mean gradients had.
  double GradientNormOfStep() const;

  // Whether this step is to be left out: the same on all ranks. After Unscale or PrepareStep.
  bool FoundInf() const;
  // After the step: moves the scale.
  void Update();

  double scale() const;
  std::int64_t skipped_steps() const { return skipped_; }
  // For checkpoints: scale and growth tracker, to be restored in place.
  std::vector<NamedTensor> state() const;

 private:
  void AgreeFoundInf(comm::ProcessGroup& group);
  void RequireLooked(const char* what) const;

  const LossScalerOptions options_;
  at::Tensor scale_;           // float
  at::Tensor growth_tracker_;  // int32: good steps in a row
  at::Tensor found_inf_;       // float: undefined until somebody has looked
  at::Tensor norm_;            // double
  bool unscaled_ = false;
  std::int64_t skipped_ = 0;
};

}  // namespace ddp::rt
