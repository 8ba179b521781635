#include "runtime/ddp/loss_scaler.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/ddp/clipping.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp::rt {
namespace {

void Require(bool condition, const std::string& message) {
  if (!condition) {
    throw Error(ExitCode::kConfig, "loss scaling: " + message);
  }
}

LossScalerOptions Checked(const LossScalerOptions& o) {
  Require(o.initial_scale > 0,
          fmt::format("the initial scale is {}, it must be positive", o.initial_scale));
  Require(o.growth_factor > 1,
          fmt::format("the growth factor is {}, it must be above 1", o.growth_factor));
  Require(o.backoff_factor > 0 && o.backoff_factor < 1,
          fmt::format("the backoff factor is {}, it must be between 0 and 1", o.backoff_factor));
  Require(o.growth_interval > 0,
          fmt::format("the growth interval is {} steps, it must be positive", o.growth_interval));
  return o;
}

}  // namespace

LossScaler::LossScaler(LossScalerOptions options, const at::Device& device)
    : options_(Checked(options)),
      scale_(at::full({1}, options_.enabled ? options_.initial_scale : 1,
                      at::device(device).dtype(at::kFloat))),
      growth_tracker_(at::zeros({1}, at::device(device).dtype(at::kInt))) {}

at::Tensor LossScaler::Scale(const at::Tensor& loss) const {
  return options_.enabled ? loss * scale_.to(loss.scalar_type()).squeeze() : loss;
}

void LossScaler::Unscale(const DataParallel& engine) {
  if (unscaled_) {
    throw Error(ExitCode::kSoftware, "the gradients of this step are unscaled already");
  }
  const at::NoGradGuard no_grad;
  found_inf_ = at::zeros({1}, scale_.options());
  std::vector<at::Tensor> parts = engine.gradient_parts();
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  for (at::Tensor& part : parts) {
    at::_amp_foreach_non_finite_check_and_unscale_({&part, 1}, found_inf_, inverse);
  }
  unscaled_ = true;
  AgreeFoundInf(engine.group());
}

// Gradients that were reduced are equal on all ranks, but parts are not, and somebody may have
// changed them since.
void LossScaler::AgreeFoundInf(comm::ProcessGroup& group) {
  if (group.world_size() > 1) {
    group
        .AllReduce(found_inf_.mutable_data_ptr(), 1, comm::DataType::kF32, comm::ReduceOp::kMax,
                   {.name = "found inf", .gpu_stream = StreamOf(found_inf_.device())})
        ->Wait();
  }
}

GradientScale LossScaler::PrepareStep(const DataParallel& engine, std::optional<double> max_norm) {
  const at::NoGradGuard no_grad;
  norm_ = GradientNorm(engine);
  if (!unscaled_) {
    found_inf_ = at::isfinite(norm_).logical_not().to(at::kFloat);
    AgreeFoundInf(engine.group());
    norm_.div_(scale_);
  }
  at::Tensor divisor = unscaled_ ? at::Tensor() : scale_;
  if (max_norm) {
    // Divided by max(1, norm / max_norm): what clipping multiplies with, the other way up.
    const at::Tensor excess = ((norm_ + kClipEpsilon) / *max_norm).clamp_min(1.0).to(at::kFloat);
    divisor = divisor.defined() ? divisor * excess : excess;
  }
  return {.divisor = divisor, .found_inf = found_inf_};
}

void LossScaler::RequireLooked(const char* what) const {
  if (!found_inf_.defined()) {
    throw Error(ExitCode::kSoftware,
                fmt::format("{} comes before Unscale or PrepareStep: nobody has looked for "
                            "overflow in this step",
                            what));
  }
}

double LossScaler::GradientNormOfStep() const { return norm_.item<double>(); }

bool LossScaler::FoundInf() const {
  RequireLooked("FoundInf");
  return found_inf_.item<float>() != 0;
}

void LossScaler::Update() {
  RequireLooked("Update");
  skipped_ += FoundInf() ? 1 : 0;
  if (options_.enabled) {
    at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth_factor,
                           options_.backoff_factor, options_.growth_interval);
  }
  found_inf_.reset();
  unscaled_ = false;
}

double LossScaler::scale() const { return scale_.item<float>(); }

std::vector<NamedTensor> LossScaler::state() const {
  return {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
}

}  // namespace ddp::rt
