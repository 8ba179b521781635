#include "runtime/ddp/sync_batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "runtime/base/error.h"
#include "runtime/ddp/replicas_test.h"

namespace ddp::rt {
namespace {

using comm::TransportKind;
using ::testing::HasSubstr;

constexpr std::int64_t kChannels = 6;

struct Layer {
  at::Tensor weight = (RandomTensor({kChannels}, 1) + 1).requires_grad_(true);
  at::Tensor bias = RandomTensor({kChannels}, 2).requires_grad_(true);
  at::Tensor running_mean = at::zeros({kChannels});
  at::Tensor running_var = at::ones({kChannels});
  BatchNormArguments arguments() const {
    return {
        .weight = weight, .bias = bias, .running_mean = running_mean, .running_var = running_var};
  }
};

// One process with the whole batch.
struct Whole {
  explicit Whole(const at::Tensor& input) : x(input.clone().requires_grad_(true)) {
    y = at::batch_norm(x, layer.weight, layer.bias, layer.running_mean, layer.running_var,
                       /*training=*/true, 0.1, 1e-5, false);
    (y * y * Factors(y)).sum().backward();
  }
  // So that gradients differ from sample to sample.
  static at::Tensor Factors(const at::Tensor& like) { return RandomTensor(like.sizes(), 9); }
  Layer layer;
  at::Tensor x;
  at::Tensor y;
};

bool Close(const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 1e-4, 1e-5); }

class SyncBatchNormTest : public ::testing::TestWithParam<std::vector<std::int64_t>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, SyncBatchNormTest,
                         ::testing::Values(std::vector<std::int64_t>{8, kChannels},
                                           std::vector<std::int64_t>{8, kChannels, 7},
                                           std::vector<std::int64_t>{8, kChannels, 5, 4}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.size()) + "d";
                         });

// Ranks with 3 and 5 of 8 samples do what one process with all 8 does.
TEST_P(SyncBatchNormTest, RanksTogetherEqualOneProcess) {
  const at::Tensor input = RandomTensor(GetParam(), 3) * 3 + 5;
  const Whole whole(input);
  std::array<Layer, 2> layers;
  std::array<at::Tensor, 2> inputs;
  RunReplicas(2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store&) {
    const auto r = static_cast<std::size_t>(rank);
    const std::int64_t begin = rank == 0 ? 0 : 3;
    const std::int64_t count = rank == 0 ? 3 : 5;
    inputs[r] = input.narrow(0, begin, count).clone().requires_grad_(true);
    const at::Tensor y = SyncBatchNorm(inputs[r], layers[r].arguments(), group);
    EXPECT_TRUE(Close(y, whole.y.narrow(0, begin, count)));
    (y * y * Whole::Factors(whole.y).narrow(0, begin, count)).sum().backward();
    EXPECT_TRUE(Close(inputs[r].grad(), whole.x.grad().narrow(0, begin, count)));
    EXPECT_TRUE(Close(layers[r].running_mean, whole.layer.running_mean));
    EXPECT_TRUE(Close(layers[r].running_var, whole.layer.running_var));
  });
  EXPECT_TRUE(at::equal(layers[0].running_mean, layers[1].running_mean));
  EXPECT_TRUE(at::equal(layers[0].running_var, layers[1].running_var));
  for (const auto member : {&Layer::weight, &Layer::bias}) {
    EXPECT_TRUE(Close((layers[0].*member).grad() + (layers[1].*member).grad(),
                      (whole.layer.*member).grad()));
  }
}

TEST(SyncBatchNorm, ARankMayHaveNoSamples) {
  const at::Tensor input = RandomTensor({4, kChannels, 3}, 3);
  const Whole whole(input);
  RunReplicas(2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store&) {
    const Layer layer;
    const at::Tensor x = input.narrow(0, 0, rank == 0 ? 4 : 0).clone().requires_grad_(true);
    const at::Tensor y = SyncBatchNorm(x, layer.arguments(), group);
    EXPECT_EQ(y.sizes(), x.sizes());
    (y * y * Whole::Factors(whole.y).narrow(0, 0, x.size(0))).sum().backward();
    EXPECT_TRUE(Close(layer.running_var, whole.layer.running_var));
    if (rank == 0) {
      EXPECT_TRUE(Close(x.grad(), whole.x.grad()));
    }
  });
}

// A model as a user writes it: layers held by their own types, and in a Sequential.
struct Net : torch::nn::Module {
  Net()
      : first(register_module("first", torch::nn::Linear(10, kChannels))),
        norm(register_module("norm", torch::nn::BatchNorm1d(kChannels))),
        rest(register_module("rest", torch::nn::Sequential(torch::nn::Linear(kChannels, 4),
                                                           torch::nn::BatchNorm1d(4)))) {}
  at::Tensor forward(const at::Tensor& x) { return rest->forward(norm(first(x))); }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Sequential rest;
};

std::shared_ptr<Net> MakeNet() {
  auto net = std::make_shared<Net>();
  const at::NoGradGuard no_grad;
  std::uint64_t seed = 20;
  for (const at::Tensor& p : net->parameters()) {
    p.copy_(RandomTensor(p.sizes(), ++seed));
  }
  return net;
}

TEST(SyncedBatchNorms, MakesTheLayersOfAModelSynchronous) {
  const at::Tensor input = RandomTensor({8, 10}, 3);
  const auto alone = MakeNet();
  const at::Tensor expected = alone->forward(input);
  expected.square().sum().backward();
  const std::vector<std::shared_ptr<Net>> nets = {MakeNet(), MakeNet()};
  RunReplicas(2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store&) {
    Net& net = *nets[static_cast<std::size_t>(rank)];
    {
      const SyncedBatchNorms synced(net, group);
      EXPECT_EQ(synced.size(), 2u);
      const at::Tensor y = net.forward(Share(input, rank, 2));
      EXPECT_TRUE(Close(y, Share(expected, rank, 2)));
      y.square().sum().backward();
      net.eval();
      const std::uint64_t works = group.stats().works;
      net.forward(Share(input, rank, 2));
      EXPECT_EQ(group.stats().works, works);  // nothing to agree on
      net.train();
    }
    // Afterwards a layer of its own again.
    EXPECT_FALSE(Close(net.forward(Share(input, rank, 2)), Share(expected, rank, 2)));
  });
  const at::Tensor sum = nets[0]->first->weight.grad() + nets[1]->first->weight.grad();
  EXPECT_TRUE(Close(sum, alone->first->weight.grad()));
  EXPECT_THAT(alone->named_buffers().keys(), ::testing::Contains("norm.running_mean"));
}

TEST(SyncBatchNorm, InputsOfOneDimensionAreRefused) {
  RunReplicas(1, TransportKind::kAuto, [&](int, comm::ProcessGroup& group, store::Store&) {
    try {
      SyncBatchNorm(at::ones({3}), {}, group);
      FAIL() << "must throw";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("got 1 dimension(s)"));
    }
  });
}

}  // namespace
}  // namespace ddp::rt
