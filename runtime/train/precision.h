// The types that train.precision and distributed.compression name.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "runtime/ddp/autocast.h"

namespace ddp::rt::train {

inline at::ScalarType TypeOf(const std::string& precision) {
  return precision == "bfloat16" ? at::kBFloat16 : precision == "float16" ? at::kHalf : at::kFloat;
}

// Autocast for a forward pass and its loss, unless all is computed in float32.
class Precision {
 public:
  Precision(const std::string& precision, const at::Device& device) {
    if (const at::ScalarType type = TypeOf(precision); type != at::kFloat) {
      autocast_.emplace(device.type(), type);
    }
  }

 private:
  std::optional<Autocast> autocast_;
};

}  // namespace ddp::rt::train
