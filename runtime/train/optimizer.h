// The optimizers that a config can name, on ATen's fused kernels: one call a step for all
// parameters. Their state is a list of named tensors, which a checkpoint saves and restores in
// place. Not thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "runtime/ddp/data_parallel.h"
#include "runtime/train/config.h"

namespace ddp::rt::train {

class Optimizer {
 public:
  Optimizer() = default;
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters from their gradients.
  virtual void Step(double learning_rate) = 0;

  const std::vector<NamedTensor>& state() const { return state_; }

 protected:
  std::vector<NamedTensor> state_;
};

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerConfig& config,
                                         const std::vector<NamedTensor>& parameters);

}  // namespace ddp::rt::train
