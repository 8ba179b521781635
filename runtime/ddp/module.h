// The tensors of a torch module by name, as DataParallel and checkpoints want them. The only header
// of this folder that needs torch/nn.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "runtime/ddp/data_parallel.h"

namespace ddp::rt {

inline std::vector<NamedTensor> NamedParameters(const torch::nn::Module& module) {
  std::vector<NamedTensor> named;
  for (const auto& item : module.named_parameters()) {
    named.push_back({item.key(), item.value()});
  }
  return named;
}

inline std::vector<NamedTensor> NamedBuffers(const torch::nn::Module& module) {
  std::vector<NamedTensor> named;
  for (const auto& item : module.named_buffers()) {
    named.push_back({item.key(), item.value()});
  }
  return named;
}

}  // namespace ddp::rt
