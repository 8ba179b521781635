// Batch normalisation over the batches of all ranks, on CPU and GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include "ddp/process_group.h"
#include "runtime/ddp/sync_batch_norm.h"

namespace ddp {

// From now until DestroyProcessGroup the training-mode BatchNorm1d, 2d and 3d layers of a module,
// at any depth, use the statistics of all ranks' batches: outputs, gradients and running statistics
// are those of one process with the whole batch. The layers stay the same objects, under the same
// names. Returns how many there are.
std::size_t ConvertSyncBatchNorm(const torch::nn::Module& module);

using rt::BatchNormArguments;
// The layer as a function, for models that do not use torch::nn. Input [samples, channels, ...].
inline at::Tensor SyncBatchNorm(const at::Tensor& input, const BatchNormArguments& arguments) {
  return rt::SyncBatchNorm(input, arguments, DefaultGroup());
}

}  // namespace ddp
