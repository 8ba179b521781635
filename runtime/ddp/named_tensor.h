// A tensor and the name that errors, checkpoints and layout checks know it by. A plain value; the
// tensor is shared, as tensors are.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace ddp::rt {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

}  // namespace ddp::rt
