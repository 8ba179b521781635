// Batch normalisation over the batches of all ranks, on CPU and GPU: forward, gradients and running
// statistics are those of one process with the whole batch. Sums are combined in the order of
// ranks, so they are bit-equal on all.
//
// Collective calls, in forward and in backward: every rank must run the same layers. Give it a
// group of its own where gradients are reduced meanwhile, so that it does not queue behind them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "runtime/comm/process_group.h"

namespace torch::nn {
class Module;
}

namespace ddp::rt {

// What at::batch_norm takes in training; weight and bias, or the running statistics, may be
// undefined.
struct BatchNormArguments {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  double momentum = 0.1;
  double epsilon = 1e-5;
};

// Input [samples, channels, ...]; a rank's may have no samples. The group must live until backward
// has run. Not differentiable twice.
at::Tensor SyncBatchNorm(const at::Tensor& input, const BatchNormArguments& arguments,
                         comm::ProcessGroup& group);

// As long as one lives, training-mode batch norms of a module (BatchNorm1d, 2d, 3d, at any depth)
// run as SyncBatchNorm, wherever they are called from: the layers stay the same objects, under the
// same names. It makes at::batch_norm look the layer up by its weight (or running mean), in this
// process. Thread-safe.
class SyncedBatchNorms {
 public:
  SyncedBatchNorms(const torch::nn::Module& module, comm::ProcessGroup& group);
  ~SyncedBatchNorms();
  SyncedBatchNorms(const SyncedBatchNorms&) = delete;
  SyncedBatchNorms& operator=(const SyncedBatchNorms&) = delete;

  // How many layers there are.
  std::size_t size() const { return keys_.size(); }

 private:
  std::vector<at::Tensor> keys_;
};

}  // namespace ddp::rt
