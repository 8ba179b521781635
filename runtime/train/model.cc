#include "runtime/train/model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cmath>

#include "runtime/ddp/sync_batch_norm.h"
#include "runtime/train/gpt.h"
#include "runtime/train/image_models.h"

namespace ddp::rt::train {
namespace {

// As torch.nn's layers have them.
constexpr double kMomentum = 0.1;
constexpr double kEpsilon = 1e-5;

}  // namespace

// Values are drawn on the CPU, so that they do not depend on the device.
Model::Model(uint64_t seed, const at::Device& device)
    : generator_(at::detail::createCPUGenerator(seed)), device_(device) {}

at::Tensor Model::Add(const std::string& name, const at::Tensor& values) {
  at::Tensor parameter = values.to(device_);
  parameter.set_requires_grad(true);
  parameters_.push_back({name, parameter});
  return parameter;
}

at::Tensor Model::AddUniform(const std::string& name, const std::vector<int64_t>& shape,
                             int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return Add(name, at::empty(shape, at::kFloat).uniform_(-bound, bound, generator_));
}

at::Tensor Model::AddNormal(const std::string& name, const std::vector<int64_t>& shape,
                            double deviation) {
  return Add(name, at::empty(shape, at::kFloat).normal_(0, deviation, generator_));
}

at::Tensor Model::AddConstant(const std::string& name, const std::vector<int64_t>& shape,
                              double value) {
  return Add(name, at::full(shape, value, at::kFloat));
}

Model::Layer Model::AddLinear(const std::string& name, int64_t in, int64_t out) {
  return {AddUniform(name + ".weight", {out, in}, in), AddUniform(name + ".bias", {out}, in)};
}

Model::BatchNorm Model::AddBatchNorm(const std::string& name, int64_t channels) {
  BatchNorm norm;
  norm.layer = {AddConstant(name + ".weight", {channels}, 1),
                AddConstant(name + ".bias", {channels}, 0)};
  norm.mean = at::full({channels}, 0.0, at::kFloat).to(device_);
  norm.variance = at::full({channels}, 1.0, at::kFloat).to(device_);
  buffers_.push_back({name + ".running_mean", norm.mean});
  buffers_.push_back({name + ".running_var", norm.variance});
  return norm;
}

at::Tensor Model::Normalize(const BatchNorm& norm, const at::Tensor& input, bool training) const {
  if (training && batch_norm_group_ != nullptr) {
    return SyncBatchNorm(input,
                         {.weight = norm.layer.weight,
                          .bias = norm.layer.bias,
                          .running_mean = norm.mean,
                          .running_var = norm.variance,
                          .momentum = kMomentum,
                          .epsilon = kEpsilon},
                         *batch_norm_group_);
  }
  return at::batch_norm(input, norm.layer.weight, norm.layer.bias, norm.mean, norm.variance,
                        training, kMomentum, kEpsilon, /*cudnn_enabled=*/true);
}

std::unique_ptr<Model> MakeModel(const ModelConfig& config, const data::DataShape& shape,
                                 uint64_t seed, const at::Device& device) {
  if (config.name == "gpt") {
    return MakeGpt(config, shape, seed, device);
  }
  return MakeImageModel(config, shape, seed, device);
}

}  // namespace ddp::rt::train
