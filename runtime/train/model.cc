#include "runtime/train/model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>

#include <cmath>

#include "runtime/base/error.h"

namespace ddp::rt::train {
namespace {

constexpr int64_t kKernel = 3;
constexpr int64_t kPool = 2;

// A weight and a bias.
struct Layer {
  at::Tensor weight;
  at::Tensor bias;
};

// Two convolutions, each halved by max-pooling, and two linear layers.
class ConvNet final : public Model {
 public:
  ConvNet(const ModelConfig& config, const InputShape& shape, at::Generator generator) {
    const int64_t first = config.channels;
    const int64_t second = 2 * config.channels;
    const int64_t flat = second * (shape.rows / kPool / kPool) * (shape.columns / kPool / kPool);
    if (flat == 0) {
      throw Error(
          ExitCode::kConfig,
          fmt::format("images of {} × {} are too small for model convnet, which halves them "
                      "twice; use model mlp",
                      shape.rows, shape.columns));
    }
    conv1_ = AddConvolution("conv1", 1, first, generator);
    conv2_ = AddConvolution("conv2", first, second, generator);
    linear1_ = AddLinear("linear1", flat, config.hidden, generator);
    linear2_ = AddLinear("linear2", config.hidden, shape.classes, generator);
  }

  at::Tensor Forward(const at::Tensor& images) const override {
    const at::Tensor once = at::max_pool2d(at::relu(Convolve(conv1_, images)), kPool);
    const at::Tensor twice = at::max_pool2d(at::relu(Convolve(conv2_, once)), kPool);
    const at::Tensor hidden =
        at::relu(at::linear(twice.flatten(1), linear1_.weight, linear1_.bias));
    return at::linear(hidden, linear2_.weight, linear2_.bias);
  }

 private:
  static at::Tensor Convolve(const Layer& layer, const at::Tensor& input) {
    return at::conv2d(input, layer.weight, layer.bias, /*stride=*/1, /*padding=*/kKernel / 2);
  }

  Layer AddConvolution(const std::string& name, int64_t in, int64_t out, at::Generator& generator) {
    const int64_t fan_in = in * kKernel * kKernel;
    return {AddParameter(name + ".weight", {out, in, kKernel, kKernel}, fan_in, generator),
            AddParameter(name + ".bias", {out}, fan_in, generator)};
  }

  Layer AddLinear(const std::string& name, int64_t in, int64_t out, at::Generator& generator) {
    return {AddParameter(name + ".weight", {out, in}, in, generator),
            AddParameter(name + ".bias", {out}, in, generator)};
  }

  Layer conv1_;
  Layer conv2_;
  Layer linear1_;
  Layer linear2_;
};

// One hidden layer.
class Mlp final : public Model {
 public:
  Mlp(const ModelConfig& config, const InputShape& shape, at::Generator generator) {
    const int64_t in = shape.rows * shape.columns;
    weight1_ = AddParameter("linear1.weight", {config.hidden, in}, in, generator);
    bias1_ = AddParameter("linear1.bias", {config.hidden}, in, generator);
    weight2_ =
        AddParameter("linear2.weight", {shape.classes, config.hidden}, config.hidden, generator);
    bias2_ = AddParameter("linear2.bias", {shape.classes}, config.hidden, generator);
  }

  at::Tensor Forward(const at::Tensor& images) const override {
    const at::Tensor hidden = at::relu(at::linear(images.flatten(1), weight1_, bias1_));
    return at::linear(hidden, weight2_, bias2_);
  }

 private:
  at::Tensor weight1_;
  at::Tensor bias1_;
  at::Tensor weight2_;
  at::Tensor bias2_;
};

}  // namespace

at::Tensor Model::AddParameter(const std::string& name, const std::vector<int64_t>& shape,
                               int64_t fan_in, at::Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  at::Tensor parameter = at::empty(shape, at::kFloat);
  parameter.uniform_(-bound, bound, generator);
  parameter.set_requires_grad(true);
  parameters_.push_back({name, parameter});
  return parameter;
}

std::unique_ptr<Model> MakeModel(const ModelConfig& config, const InputShape& shape,
                                 uint64_t seed) {
  const auto generator = at::detail::createCPUGenerator(seed);
  if (config.name == "mlp") {
    return std::make_unique<Mlp>(config, shape, generator);
  }
  return std::make_unique<ConvNet>(config, shape, generator);
}

}  // namespace ddp::rt::train
