#include "runtime/train/image_models.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/train/layers.h"

namespace ddp::rt::train {
namespace {

constexpr int64_t kKernel = 3;
constexpr int64_t kPool = 2;

// Two convolutions, each halved by max-pooling, and two linear layers.
class ConvNet final : public Model {
 public:
  ConvNet(const ModelConfig& config, const data::DataShape& shape, uint64_t seed,
          const at::Device& device)
      : Model(seed, device) {
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
    conv1_ = AddConvolution("conv1", shape.channels, first);
    conv2_ = AddConvolution("conv2", first, second);
    linear1_ = AddLinear("linear1", flat, config.hidden);
    linear2_ = AddLinear("linear2", config.hidden, shape.classes);
  }

  at::Tensor Forward(const at::Tensor& images, bool /*training*/) override {
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

  Layer AddConvolution(const std::string& name, int64_t in, int64_t out) {
    const int64_t fan_in = in * kKernel * kKernel;
    return {AddUniform(name + ".weight", {out, in, kKernel, kKernel}, fan_in),
            AddUniform(name + ".bias", {out}, fan_in)};
  }

  Layer conv1_;
  Layer conv2_;
  Layer linear1_;
  Layer linear2_;
};

// Hidden layers of one width.
class Mlp final : public Model {
 public:
  Mlp(const ModelConfig& config, const data::DataShape& shape, uint64_t seed,
      const at::Device& device)
      : Model(seed, device) {
    int64_t in = shape.channels * shape.rows * shape.columns;
    for (int64_t i = 1; i <= config.hidden_layers; ++i) {
      layers_.push_back(AddLinear(fmt::format("linear{}", i), in, config.hidden));
      in = config.hidden;
    }
    last_ = AddLinear(fmt::format("linear{}", config.hidden_layers + 1), in, shape.classes);
  }

  at::Tensor Forward(const at::Tensor& images, bool /*training*/) override {
    at::Tensor x = images.flatten(1);
    for (const Layer& layer : layers_) {
      x = at::relu(Linear(x, layer.weight, layer.bias));
    }
    return Linear(x, last_.weight, last_.bias);
  }

 private:
  std::vector<Layer> layers_;
  Layer last_;
};

// ResNet-18 as usual for small images (CIFAR): the first convolution keeps the size, no pooling
// after it. Names and initialisation as in torchvision.
class ResNet18 final : public Model {
 public:
  ResNet18(const data::DataShape& shape, uint64_t seed, const at::Device& device)
      : Model(seed, device) {
    constexpr int64_t kWidths[] = {64, 128, 256, 512};
    constexpr int64_t kBlocks = 2;  // of one width
    int64_t in = kWidths[0];
    first_ = {AddConvolution("conv1", shape.channels, in, kKernel), AddBatchNorm("bn1", in)};
    for (int64_t stage = 0; stage < std::ssize(kWidths); ++stage) {
      for (int64_t i = 0; i < kBlocks; ++i) {
        const int64_t out = kWidths[stage];
        AddBlock(fmt::format("layer{}.{}", stage + 1, i), in, out, stage > 0 && i == 0 ? 2 : 1);
        in = out;
      }
    }
    linear_ = AddLinear("fc", in, shape.classes);
  }

  at::Tensor Forward(const at::Tensor& images, bool training) override {
    at::Tensor x = at::relu(Apply(first_, images, 1, training));
    for (const Block& block : blocks_) {
      const at::Tensor y = at::relu(Apply(block.first, x, block.stride, training));
      const at::Tensor shortcut =
          block.shortcut.weight.defined() ? Apply(block.shortcut, x, block.stride, training) : x;
      x = at::relu(Apply(block.second, y, 1, training) + shortcut);
    }
    return Linear(x.mean({2, 3}), linear_.weight, linear_.bias);
  }

 private:
  struct Convolution {
    at::Tensor weight;
    BatchNorm norm;
  };
  struct Block {
    int64_t stride;
    Convolution first;
    Convolution second;
    Convolution shortcut;  // undefined where sizes stay
  };

  at::Tensor AddConvolution(const std::string& name, int64_t in, int64_t out, int64_t kernel) {
    return AddNormal(name + ".weight", {out, in, kernel, kernel},
                     std::sqrt(2 / static_cast<double>(out * kernel * kernel)));
  }

  void AddBlock(const std::string& name, int64_t in, int64_t out, int64_t stride) {
    Block block{.stride = stride, .first = {}, .second = {}, .shortcut = {}};
    block.first = {AddConvolution(name + ".conv1", in, out, kKernel),
                   AddBatchNorm(name + ".bn1", out)};
    block.second = {AddConvolution(name + ".conv2", out, out, kKernel),
                    AddBatchNorm(name + ".bn2", out)};
    if (in != out) {
      block.shortcut = {AddConvolution(name + ".downsample.0", in, out, 1),
                        AddBatchNorm(name + ".downsample.1", out)};
    }
    blocks_.push_back(std::move(block));
  }

  at::Tensor Apply(const Convolution& convolution, const at::Tensor& x, int64_t stride,
                   bool training) const {
    return Normalize(convolution.norm, train::Convolve(x, convolution.weight, stride), training);
  }

  Convolution first_;
  std::vector<Block> blocks_;
  Layer linear_;
};

}  // namespace

std::unique_ptr<Model> MakeImageModel(const ModelConfig& config, const data::DataShape& shape,
                                      uint64_t seed, const at::Device& device) {
  DDP_RT_CHECK(!shape.tokens(), "an image model wants images");
  if (config.name == "mlp") {
    return std::make_unique<Mlp>(config, shape, seed, device);
  }
  if (config.name == "resnet18") {
    return std::make_unique<ResNet18>(shape, seed, device);
  }
  return std::make_unique<ConvNet>(config, shape, seed, device);
}

}  // namespace ddp::rt::train
