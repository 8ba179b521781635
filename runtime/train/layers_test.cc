#include "runtime/train/layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "runtime/ddp/autocast.h"

namespace ddp::rt::train {
namespace {

// The gradients of x, weight and bias of a layer, where weight.grad lies ready or not.
struct Gradients {
  at::Tensor x, weight, bias;
};

template <typename Layer>
Gradients Run(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool ready,
              const Layer& layer) {
  const at::Tensor in = x.detach().clone().requires_grad_(true);
  const at::Tensor w = weight.detach().clone().requires_grad_(true);
  const at::Tensor b = bias.defined() ? bias.detach().clone().requires_grad_(true) : bias;
  if (ready) {
    w.mutable_grad() = at::zeros_like(weight) + 1;
  }
  const void* const before = ready ? w.grad().const_data_ptr() : nullptr;
  layer(in, w, b).square().sum().backward();
  if (ready) {
    EXPECT_EQ(before, w.grad().const_data_ptr()) << "added in place";
  }
  return {in.grad(), ready ? w.grad() - 1 : w.grad(), b.defined() ? b.grad() : b};
}

template <typename Ours, typename Theirs>
void ExpectSame(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                const Ours& ours, const Theirs& theirs) {
  const Gradients wanted = Run(x, weight, bias, false, theirs);
  for (const bool ready : {false, true}) {
    const Gradients got = Run(x, weight, bias, ready, ours);
    EXPECT_TRUE(got.x.allclose(wanted.x, 1e-4, 1e-3));
    EXPECT_TRUE(got.weight.allclose(wanted.weight, 1e-4, 1e-3));
    EXPECT_TRUE(!bias.defined() || got.bias.allclose(wanted.bias, 1e-4, 1e-3));
  }
}

TEST(Layers, LinearIsTorchs) {
  const auto ours = [](const auto& x, const auto& w, const auto& b) { return Linear(x, w, b); };
  const auto theirs = [](const auto& x, const auto& w, const auto& b) {
    return at::linear(x, w, b);
  };
  ExpectSame(at::randn({3, 4, 5}), at::randn({6, 5}), at::randn({6}), ours, theirs);
  ExpectSame(at::randn({7, 5}), at::randn({6, 5}), {}, ours, theirs);
  // As large as a transformer's: multiplied elsewhere.
  const at::Tensor large = at::randn({2, 128, 192}) / 10;
  ExpectSame(large, at::randn({384, 192}), at::randn({384}), ours, theirs);
  ExpectSame(large, at::randn({384, 192}), {}, ours, theirs);
}

TEST(Layers, ConvolveIsTorchs) {
  for (const int64_t stride : {1, 2}) {
    for (const int64_t kernel : {1, 3}) {
      for (const int64_t side : {4, 7, 12}) {  // few places, and many
        SCOPED_TRACE(testing::Message() << stride << " " << kernel << " " << side);
        ExpectSame(
            at::randn({2, 3, side, side}), at::randn({5, 3, kernel, kernel}), {},
            [&](const auto& x, const auto& w, const auto&) { return Convolve(x, w, stride); },
            [&](const auto& x, const auto& w, const auto&) {
              return at::conv2d(x, w, {}, stride, kernel / 2);
            });
      }
    }
  }
}

TEST(Layers, LeaveSixteenBitsToTorch) {
  const at::Tensor weight = at::randn({6, 5}).requires_grad_(true);
  weight.mutable_grad() = at::zeros_like(weight.detach());
  at::Tensor y;
  {
    const Autocast autocast(at::kCPU, at::kBFloat16);
    y = Linear(at::randn({2, 5}), weight, {});
  }
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  EXPECT_GT(weight.grad().abs().sum().item<double>(), 0);
}

TEST(Layers, NeedNoGradients) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = at::randn({6, 5});
  const at::Tensor x = at::randn({2, 5});
  EXPECT_TRUE(Linear(x, weight, {}).equal(at::linear(x, weight)));
}

}  // namespace
}  // namespace ddp::rt::train
