#include "runtime/train/stepper.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/data/seed.h"
#include "runtime/ddp/clipping.h"
#include "runtime/ddp/zero_optimizer.h"
#include "runtime/train/precision.h"

namespace ddp::rt::train {
namespace {

using Clock = std::chrono::steady_clock;

// With train.nonFinite skip: more is no bad luck.
constexpr int64_t kMostSkips = 100;
// Where nobody needs the norm of the gradients, it is computed so often, for those who watch.
constexpr int64_t kNormEverySteps = 50;

constexpr double kMegabyte = 1 << 20;

DataParallelOptions EngineOptions(const Config& config) {
  DataParallelOptions options;
  options.bucket_bytes = static_cast<size_t>(config.distributed.bucket_megabytes * kMegabyte);
  const at::ScalarType wire = TypeOf(config.distributed.compression);
  options.compression = wire == at::kBFloat16 ? Compression::kBF16
                        : wire == at::kHalf   ? Compression::kF16
                                              : Compression::kNone;
  options.find_unused_parameters = config.distributed.find_unused_parameters;
  options.shard_optimizer = config.optimizer.sharded;
  options.scatter_gradients = config.optimizer.sharded;
  options.timeout = std::chrono::seconds(config.distributed.init_timeout_seconds);
  return options;
}

OptimizerOptions UpdateOptions(const OptimizerConfig& config) {
  using Kind = OptimizerOptions::Kind;
  OptimizerOptions options;
  options.kind = config.name == "sgd"    ? Kind::kSgd
                 : config.name == "adam" ? Kind::kAdam
                                         : Kind::kAdamW;
  options.beta1 = config.beta1;
  options.beta2 = config.beta2;
  options.weight_decay = config.weight_decay;
  options.decay_matrices_only = config.decay_matrices_only;
  options.momentum = config.momentum;
  options.nesterov = config.nesterov;
  return options;
}

std::optional<LossScaler> MakeScaler(const Config& config, const at::Device& device) {
  const bool scaled = config.train.precision == "float16";
  if (!scaled && config.optimizer.clip_norm == 0 && config.train.non_finite == "abort") {
    return std::nullopt;
  }
  return std::make_optional<LossScaler>(
      LossScalerOptions{.enabled = scaled, .initial_scale = config.train.loss_scale}, device);
}

}  // namespace

Stepper::Stepper(const RunContext& run, Model& model)
    : run_(run), model_(model), scaler_(MakeScaler(run.config, run.device)) {
  const Config& config = run.config;
  if (run.norm_group != nullptr) {
    model_.SynchronizeBatchNorms(*run.norm_group);
  }
  replicas_ = std::make_unique<DataParallel>(model_.parameters(), model_.buffers(),
                                             run.device_group, run.store, EngineOptions(config));
  if (config.optimizer.sharded) {
    optimizer_ = std::make_unique<ZeroOptimizer>(UpdateOptions(config.optimizer), *replicas_);
  } else {
    optimizer_ =
        std::make_unique<FusedOptimizer>(UpdateOptions(config.optimizer), model_.parameters());
  }
}

std::vector<NamedTensor> Stepper::state() const {
  std::vector<NamedTensor> state = optimizer_->state();
  if (scaler_ && run_.config.train.precision == "float16") {
    for (const auto& [name, tensor] : scaler_->state()) {
      state.push_back({"lossScaler." + name, tensor});
    }
  }
  return state;
}

void Stepper::ShareBuffers() {
  if (!model_.buffers().empty()) {
    replicas_->BroadcastBuffers();
  }
}

StepReport Stepper::Run(const data::LoadedStep& step, double learning_rate) {
  StepReport report;
  replicas_->ZeroGrad();
  Backward(step, report);
  replicas_->EnsureReduced();
  report.exposed = replicas_->exposed();
  if (!scaler_ && !std::isfinite(report.loss)) {
    throw Error(ExitCode::kSoftware,
                fmt::format("the loss is {} in step {}: training diverged; lower "
                            "optimizer.learningRate or add schedule.warmupSteps",
                            report.loss, step.plan.step + 1));
  }
  const auto start = Clock::now();
  Update(step.plan.step, learning_rate, report);
  if (report.skipped) {
    LeaveOut(step.plan.step + 1, report);
  } else {
    left_out_ = 0;
  }
  report.optimizer = Clock::now() - start;
  return report;
}

void Stepper::Backward(const data::LoadedStep& step, StepReport& report) {
  // Batch statistics of all ranks are a collective call, so then empty parts take part too.
  size_t parts = step.parts.size();
  while (parts > 0 && run_.norm_group == nullptr && step.parts[parts - 1].labels.numel() == 0) {
    --parts;
  }
  for (size_t part = 0; part < parts; ++part) {
    std::optional<DataParallel::NoSync> more;
    if (part + 1 < parts) {
      more.emplace(*replicas_);
    }
    report.loss += BackwardOfPart(step, part, report);
  }
  if (parts == 0) {
    replicas_->ReduceWithoutBackward();
  }
}

double Stepper::BackwardOfPart(const data::LoadedStep& step, size_t part, StepReport& report) {
  const auto start = Clock::now();
  const data::Batch& batch = step.parts[part];
  const at::Tensor inputs = batch.inputs.to(run_.device, /*non_blocking=*/true);
  const at::Tensor labels = batch.labels.to(run_.device, /*non_blocking=*/true).flatten();
  SeedDropout(step.plan.step, part);
  at::Tensor loss;
  {
    const Precision precision(run_.config.train.precision, run_.device);
    const at::Tensor scores = model_.Forward(inputs, /*training=*/true);
    loss = labels.numel() == 0 ? scores.sum() * 0
                               : at::cross_entropy_loss(scores.flatten(0, -2), labels);
  }
  // So that the mean over ranks of these sums is the mean over all samples of the step.
  const auto labels_per_sample = static_cast<double>(run_.data.train->labels_per_sample());
  const double weight = static_cast<double>(run_.group.world_size()) *
                        static_cast<double>(labels.numel()) /
                        (static_cast<double>(step.plan.total) * labels_per_sample);
  if (weight != 1) {
    loss = loss * weight;
  }
  const auto middle = Clock::now();
  (scaler_ ? scaler_->Scale(loss) : loss).backward();
  report.forward += middle - start;
  report.backward += Clock::now() - middle;
  return loss.item<double>();
}

// Dropout differs from rank to rank and from step to step, and a resumed run repeats it.
void Stepper::SeedDropout(int64_t step, size_t part) const {
  if (run_.config.model.dropout > 0) {
    at::manual_seed(data::MixAll({run_.config.train.seed, static_cast<uint64_t>(step),
                                  static_cast<uint64_t>(run_.group.rank()), part}));
  }
}

void Stepper::Update(int64_t step, double learning_rate, StepReport& report) {
  if (!scaler_) {
    if (step % kNormEverySteps == 0) {
      report.gradient_norm = GradientNorm(*replicas_).item<double>();
    }
    optimizer_->Step(learning_rate);
    return;
  }
  const double most = run_.config.optimizer.clip_norm;
  const GradientScale scale =
      scaler_->PrepareStep(*replicas_, most > 0 ? std::optional(most) : std::nullopt);
  report.skipped = scaler_->FoundInf();
  report.gradient_norm = scaler_->GradientNormOfStep();
  optimizer_->Step(learning_rate, scale);
  scaler_->Update();
}

// All ranks have found the same, so all do the same.
void Stepper::LeaveOut(int64_t step, StepReport& report) {
  const std::string& policy = run_.config.train.non_finite;
  ++left_out_;
  if (run_.config.train.precision == "float16" && scaler_->scale() >= 1) {
    Log(Level::kInfo, "step={} left out: gradients overflowed; loss scale now {}", step,
        scaler_->scale());
  } else if (policy == "abort" || left_out_ > kMostSkips) {
    throw Error(ExitCode::kSoftware,
                fmt::format("gradients are not finite in step {} ({} in a row): training diverged; "
                            "lower optimizer.learningRate, add schedule.warmupSteps, or set "
                            "train.nonFinite to skip or rollback",
                            step, left_out_));
  } else if (policy == "rollback") {
    report.roll_back = true;
  } else {
    Log(Level::kWarning, "step={} left out: gradients are not finite", step);
  }
}

}  // namespace ddp::rt::train
