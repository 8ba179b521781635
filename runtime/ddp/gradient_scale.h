// What optimizers are told about the gradients they are given, so that loss scaling and clipping
// cost no pass of their own. A plain value; two undefined tensors mean: take them as they are.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddp::rt {

struct GradientScale {
  at::Tensor divisor;    // float, one element: gradients are divided by it; undefined = 1
  at::Tensor found_inf;  // float, one element: not zero = leave out this step; undefined = 0
};

}  // namespace ddp::rt
