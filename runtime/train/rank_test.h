// For tests: one rank of a run with a small model, stepped by hand.
#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <memory>
#include <optional>

#include "runtime/ddp/replicas_test.h"
#include "runtime/train/saving.h"
#include "runtime/train/stepper.h"

namespace ddp::rt::train {

inline constexpr data::DataShape kTestShape{.channels = 1, .rows = 2, .columns = 2, .classes = 3};

class NoData final : public data::Dataset {
 public:
  int64_t size() const override { return 8; }
  int64_t labels_per_sample() const override { return 1; }
  data::DataShape shape() const override { return kTestShape; }
  data::Batch Make(std::span<const int64_t> /*samples*/,
                   const data::Draw* /*draw*/) const override {
    return {};
  }
};

// Starts from the newest checkpoint, if there is a folder and one in it, as a Trainer does.
class TestRank {
 public:
  TestRank(const Config& config, comm::ProcessGroup& group, store::Store& store,
           checkpoint::CheckpointFolder* folder = nullptr)
      : config_(config),
        run_{.config = config_,
             .data = data_,
             .folder = folder,
             .group = group,
             .device_group = group,
             .norm_group = nullptr,
             .store = store,
             .signals = signals_,
             .board = board_,
             .device = at::kCPU},
        model_(MakeModel({.name = "mlp", .hidden = 4}, kTestShape, 1)) {
    data_.train = std::make_unique<NoData>();
    saving_.emplace(run_, *model_);
    steps_ = saving_->ResumeModel().step;
    stepper_.emplace(run_, *model_);
    saving_->ResumeState(stepper_->state());
  }

  // Two samples of four equal pixels.
  StepReport Step(double input) {
    return Run(
        {.inputs = at::full({2, 1, 2, 2}, input, at::kFloat), .labels = at::zeros({2}, at::kLong)},
        4);
  }
  StepReport StepWithout() {
    return Run({.inputs = at::zeros({0, 1, 2, 2}, at::kFloat), .labels = at::zeros({0}, at::kLong)},
               2);
  }
  // Returns when it is on stable storage.
  void Save() {
    saving_->Save({.step = steps_}, kRate);
    saving_->Finish();
  }

  int64_t steps() const { return steps_; }
  Saving& saving() { return *saving_; }
  uint64_t hash() { return stepper_->replicas().ParameterHash(); }
  // A copy of what the optimizer and the loss scaler remember.
  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> copies;
    for (const NamedTensor& item : stepper_->state()) {
      copies.push_back(item.tensor.clone());
    }
    return copies;
  }

 private:
  static constexpr double kRate = 0.1;

  StepReport Run(data::Batch batch, int64_t total) {
    data::LoadedStep step;
    step.plan = {.step = steps_++, .samples = {}, .total = total, .part = 2};
    step.parts.push_back(std::move(batch));
    return stepper_->Run(step, kRate);
  }

  const Config config_;
  data::Datasets data_;
  StopSignals signals_;
  Board board_;
  RunContext run_;
  std::unique_ptr<Model> model_;
  std::optional<Saving> saving_;
  std::optional<Stepper> stepper_;
  int64_t steps_ = 0;
};

}  // namespace ddp::rt::train
