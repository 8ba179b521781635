#include "runtime/train/gpt.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "runtime/ddp/fused_optimizer.h"

namespace ddp::rt::train {
namespace {

// Threads only get in each other's way with tensors as small as these.
const bool kOneThread = (at::set_num_threads(1), true);

constexpr data::DataShape kTokens{.classes = 11};
const ModelConfig kSmall{.name = "gpt", .layers = 2, .heads = 2, .width = 16, .context = 8};

int64_t Elements(const Model& model) {
  int64_t sum = 0;
  for (const NamedTensor& parameter : model.parameters()) {
    sum += parameter.tensor.numel();
  }
  return sum;
}

TEST(Gpt, HasTheShapeOfNanoGpt) {
  // nanoGPT's character model: 6 layers, 6 heads, 384 wide, 256 tokens, 65 characters, no biases.
  ModelConfig config{.name = "gpt"};
  config.bias = false;
  EXPECT_EQ(Elements(*MakeModel(config, {.classes = 65}, 1)), 10'745'088);
  const auto model = MakeModel(kSmall, kTokens, 1);
  const auto scores = model->Forward(at::randint(11, {3, 5}, at::kLong), true);
  EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{3, 5, 11}));
  EXPECT_EQ(model->parameters().front().name, "transformer.wte.weight");
  ModelConfig untied = kSmall;
  untied.tie_weights = false;
  EXPECT_EQ(MakeModel(untied, kTokens, 1)->parameters().back().name, "lm_head.bias");
}

TEST(Gpt, LooksBackOnly) {
  const auto model = MakeModel(kSmall, kTokens, 1);
  const at::Tensor tokens = at::randint(11, {1, 8}, at::kLong);
  const at::Tensor scores = model->Forward(tokens, false).detach();
  tokens.select(1, 5).fill_((tokens.select(1, 5).item<int64_t>() + 1) % 11);
  const at::Tensor changed = model->Forward(tokens, false).detach();
  EXPECT_TRUE(scores.narrow(1, 0, 5).allclose(changed.narrow(1, 0, 5)));
  EXPECT_FALSE(scores.select(1, 5).allclose(changed.select(1, 5)));
}

TEST(Gpt, LearnsASequenceAndRepeatsIt) {
  const auto model = MakeModel(kSmall, kTokens, 1);
  FusedOptimizer optimizer({}, model->parameters());
  std::vector<int64_t> row;
  for (int64_t i = 0; i < 9; ++i) {
    row.push_back(i * i % 11);  // 0 1 4 9 5 3 3 5 9
  }
  const at::Tensor all = at::tensor(row, at::kLong).unsqueeze(0);
  for (int step = 0; step < 80; ++step) {
    for (const NamedTensor& parameter : model->parameters()) {
      parameter.tensor.mutable_grad() = at::Tensor();
    }
    const at::Tensor scores = model->Forward(all.narrow(1, 0, 8), true).flatten(0, 1);
    at::cross_entropy_loss(scores, all.narrow(1, 1, 8).flatten()).backward();
    optimizer.Step(0.02);
  }
  EXPECT_EQ(Generate(*model, {0}, 8, 8, 0.1, 1), row);
}

TEST(Gpt, DropsInTrainingOnly) {
  ModelConfig config = kSmall;
  config.dropout = 0.5;
  const auto model = MakeModel(config, kTokens, 1);
  const at::Tensor tokens = at::randint(11, {2, 8}, at::kLong);
  EXPECT_TRUE(model->Forward(tokens, false).equal(model->Forward(tokens, false)));
  EXPECT_FALSE(model->Forward(tokens, true).equal(model->Forward(tokens, true)));
}

}  // namespace
}  // namespace ddp::rt::train
