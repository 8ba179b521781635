// Optimizers on fused kernels, and clipping. torch::optim works as well: .grad is the mean.
#pragma once

#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "runtime/ddp/clipping.h"
#include "runtime/ddp/fused_optimizer.h"
#include "runtime/ddp/module.h"
#include "runtime/ddp/zero_optimizer.h"

namespace ddp {

using rt::GradientScale;
using rt::Optimizer;  // Step(learning_rate), Step(learning_rate, scale); a Checkpointer saves it
using rt::OptimizerOptions;  // kAdamW, kAdam, kSgd and their constants

// AdamW, Adam or SGD, one kernel call for all parameters. Every rank keeps all of the state.
class FusedOptimizer : public rt::FusedOptimizer {
 public:
  FusedOptimizer(const OptimizerOptions& options, const torch::nn::Module& module)
      : rt::FusedOptimizer(options, rt::NamedParameters(module)) {}
};

// The same updates with the state divided among the ranks (ZeRO-1): each keeps 1/ranks of it. The
// model is wrapped with shard_optimizer (or scatter_gradients). Step is a collective.
class ZeroOptimizer : public rt::ZeroOptimizer {
 public:
  ZeroOptimizer(const OptimizerOptions& options, Replicas& model)
      : rt::ZeroOptimizer(options, model.engine()) {}
};

// After backward: scales all gradients so that their 2-norm is at most `max_norm`, and returns the
// norm that they had. The same on all ranks. If the norm is not finite, all gradients become NaN,
// as in PyTorch: leave out the step (GradScaler does).
inline double ClipGradNorm(Replicas& model, double max_norm) {
  return rt::ClipGradientNorm(model.engine(), max_norm).item<double>();
}

}  // namespace ddp
