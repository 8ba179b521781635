// One optimizer step of one rank: forward and backward of each part, the mean over ranks, clipping,
// the update; and what becomes of gradients that are not finite. Owned by the training thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/data/loader.h"
#include "runtime/ddp/data_parallel.h"
#include "runtime/ddp/fused_optimizer.h"
#include "runtime/ddp/loss_scaler.h"
#include "runtime/train/model.h"
#include "runtime/train/run_context.h"

namespace ddp::rt::train {

struct StepReport {
  // This rank's share of the step's loss: the mean of all ranks' is the mean over all samples.
  double loss = 0;
  // Gradients were not finite and the step was left out, on all ranks alike.
  bool skipped = false;
  // By train.nonFinite: the run is to go back to its last checkpoint.
  bool roll_back = false;
  std::optional<double> gradient_norm;  // before clipping; not of every step
  std::chrono::nanoseconds data_wait{0};
  std::chrono::nanoseconds forward{0};
  std::chrono::nanoseconds backward{0};  // including `exposed`
  std::chrono::nanoseconds exposed{0};   // of that: waiting for all-reduces after its own work
  std::chrono::nanoseconds optimizer{0};
};

class Stepper {
 public:
  // Gives all ranks rank 0's parameters and buffers. A collective call; the model outlives this.
  Stepper(const RunContext& run, Model& model);

  // A collective call. Error(kSoftware) if training has diverged and train.nonFinite says abort.
  StepReport Run(const data::LoadedStep& step, double learning_rate);

  // Running statistics are rank 0's on all ranks: before evaluating or saving.
  void ShareBuffers();

  DataParallel& replicas() { return *replicas_; }
  Optimizer& optimizer() { return *optimizer_; }
  // Of optimizer and loss scaler, to be restored in place.
  std::vector<NamedTensor> state() const;

 private:
  void Backward(const data::LoadedStep& step, StepReport& report);
  double BackwardOfPart(const data::LoadedStep& step, size_t part, StepReport& report);
  void Update(int64_t step, double learning_rate, StepReport& report);
  void LeaveOut(int64_t step, StepReport& report);
  void SeedDropout(int64_t step, size_t part) const;

  const RunContext& run_;
  Model& model_;
  std::unique_ptr<DataParallel> replicas_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LossScaler> scaler_;  // where gradients are looked at before the update
  int64_t left_out_ = 0;              // steps in a row
};

}  // namespace ddp::rt::train
