#include "runtime/train/gpt.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/train/layers.h"

namespace ddp::rt::train {
namespace {

constexpr double kDeviation = 0.02;
constexpr double kEpsilon = 1e-5;
constexpr int64_t kExpansion = 4;  // of the hidden layer of a block

class Gpt final : public Model {
 public:
  Gpt(const ModelConfig& config, const data::DataShape& shape, uint64_t seed,
      const at::Device& device)
      : Model(seed, device), config_(config) {
    const int64_t width = config.width;
    tokens_ = AddNormal("transformer.wte.weight", {shape.classes, width}, kDeviation);
    places_ = AddNormal("transformer.wpe.weight", {config.context, width}, kDeviation);
    const double projection = kDeviation / std::sqrt(2 * static_cast<double>(config.layers));
    for (int64_t i = 0; i < config.layers; ++i) {
      const std::string name = fmt::format("transformer.h.{}.", i);
      blocks_.push_back(
          {.norm1 = AddNorm(name + "ln_1"),
           .attention = AddDense(name + "attn.c_attn", width, 3 * width, kDeviation),
           .projection = AddDense(name + "attn.c_proj", width, width, projection),
           .norm2 = AddNorm(name + "ln_2"),
           .expand = AddDense(name + "mlp.c_fc", width, kExpansion * width, kDeviation),
           .contract = AddDense(name + "mlp.c_proj", kExpansion * width, width, projection)});
    }
    norm_ = AddNorm("transformer.ln_f");
    head_.weight = tokens_;
    if (!config.tie_weights) {
      head_ = AddDense("lm_head", width, shape.classes, kDeviation);
    }
  }

  at::Tensor Forward(const at::Tensor& input, bool training) override {
    const int64_t length = input.size(1);
    at::Tensor x = at::embedding(tokens_, input) + places_.narrow(0, 0, length);
    x = Drop(x, training);
    for (const Block& block : blocks_) {
      x = x + Drop(Attend(block, Normalized(block.norm1, x), training), training);
      const at::Tensor hidden = at::gelu(Apply(block.expand, Normalized(block.norm2, x)));
      x = x + Drop(Apply(block.contract, hidden), training);
    }
    return Apply(head_, Normalized(norm_, x));
  }

 private:
  struct Block {
    Layer norm1;
    Layer attention;
    Layer projection;
    Layer norm2;
    Layer expand;
    Layer contract;
  };

  Layer AddDense(const std::string& name, int64_t in, int64_t out, double deviation) {
    Layer layer{AddNormal(name + ".weight", {out, in}, deviation), {}};
    if (config_.bias) {
      layer.bias = AddConstant(name + ".bias", {out}, 0);
    }
    return layer;
  }

  Layer AddNorm(const std::string& name) {
    Layer layer{AddConstant(name + ".weight", {config_.width}, 1), {}};
    if (config_.bias) {
      layer.bias = AddConstant(name + ".bias", {config_.width}, 0);
    }
    return layer;
  }

  static at::Tensor Apply(const Layer& layer, const at::Tensor& x) {
    return Linear(x, layer.weight, layer.bias);
  }

  at::Tensor Normalized(const Layer& norm, const at::Tensor& x) const {
    return at::layer_norm(x, {config_.width}, norm.weight, norm.bias, kEpsilon);
  }

  at::Tensor Drop(const at::Tensor& x, bool training) const {
    return training && config_.dropout > 0 ? at::dropout(x, config_.dropout, true) : x;
  }

  at::Tensor Attend(const Block& block, const at::Tensor& x, bool training) const {
    const int64_t batch = x.size(0);
    const int64_t length = x.size(1);
    const auto parts = Apply(block.attention, x)
                           .view({batch, length, 3, config_.heads, config_.width / config_.heads})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const at::Tensor mixed = at::scaled_dot_product_attention(
        parts[0], parts[1], parts[2], /*attn_mask=*/{}, training ? config_.dropout : 0.0,
        /*is_causal=*/true);
    return Apply(block.projection, mixed.transpose(1, 2).reshape({batch, length, config_.width}));
  }

  const ModelConfig config_;
  at::Tensor tokens_;
  at::Tensor places_;
  std::vector<Block> blocks_;
  Layer norm_;
  Layer head_;
};

}  // namespace

std::unique_ptr<Model> MakeGpt(const ModelConfig& config, const data::DataShape& shape,
                               uint64_t seed, const at::Device& device) {
  DDP_RT_CHECK(shape.tokens() && config.width % config.heads == 0, "checked with the config");
  return std::make_unique<Gpt>(config, shape, seed, device);
}

std::vector<int64_t> Generate(Model& model, std::vector<int64_t> prompt, int64_t count,
                              int64_t context, double temperature, uint64_t seed) {
  const at::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(seed);
  const at::Device device = model.parameters().front().tensor.device();
  std::vector<int64_t>& all = prompt;
  for (int64_t i = 0; i < count; ++i) {
    const auto seen = std::min(all.size(), static_cast<size_t>(context));
    const std::vector<int64_t> last(all.end() - static_cast<std::ptrdiff_t>(seen), all.end());
    const at::Tensor scores =
        model.Forward(at::tensor(last, at::kLong).unsqueeze(0).to(device), false);
    const at::Tensor odds =
        at::softmax(scores.select(0, 0).select(0, -1).to(at::kCPU, at::kDouble) / temperature, 0);
    all.push_back(at::multinomial(odds, 1, false, generator).item<int64_t>());
  }
  return prompt;
}

}  // namespace ddp::rt::train
