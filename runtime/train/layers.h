// Linear layers and convolutions whose backward adds the weight's gradient straight to weight.grad,
// where that lies ready (the engine's buckets): the product's sum is the accumulation, so there is
// neither a gradient of its own nor a pass that adds it. Same results as at::linear and at::conv2d
// up to rounding; those are used on GPUs, under autocast, without gradients, and where weight.grad
// is not there. Backward belongs to one thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddp::rt::train {

// The last dimension of `x` times the weight [out, in], plus the bias, if it is defined.
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Square kernels, odd; padding keeps the size but for the stride. No bias.
at::Tensor Convolve(const at::Tensor& x, const at::Tensor& weight, int64_t stride);

}  // namespace ddp::rt::train
