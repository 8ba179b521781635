// ZeRO-1: each rank keeps optimizer state for its part of every bucket only, updates that part of
// the parameters, and all ranks then gather the whole. Memory for optimizer state is 1/ranks of
// FusedOptimizer's, results are the same. Made after the engine (DataParallelOptions with
// shard_optimizer or scatter_gradients), which outlives it. Not thread-safe.
//
// The parameters' elements move into flat memory that mirrors the gradient buckets; the tensors
// stay the same objects. State pieces are named as in state_pieces.h, so that a checkpoint of one
// world size can be loaded in another.
#pragma once

#include <vector>

#include "runtime/ddp/data_parallel.h"
#include "runtime/ddp/fused_optimizer.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp::rt {

class ZeroOptimizer : public Optimizer {
 public:
  // A collective call. Error(kConfig) if the engine can't be cut, or names a parameter that is not
  // contiguous.
  ZeroOptimizer(const OptimizerOptions& options, DataParallel& engine);

  using Optimizer::Step;
  // A collective call.
  void Step(double learning_rate, const GradientScale& scale) override;
  std::vector<NamedTensor> state() const override { return update_.state(); }

 private:
  struct Shard {
    at::Tensor flat;  // parameters, as the bucket's gradients
    at::Tensor part;  // of it: this rank's
  };
  struct Plan {
    TensorMemory memory;
    std::vector<Shard> shards;  // one a bucket
    std::vector<FusedUpdate::Target> targets;
    std::vector<at::Tensor> gradients;  // one a target
  };
  ZeroOptimizer(const OptimizerOptions& options, DataParallel& engine, Plan plan);
  static Plan MakePlan(const OptimizerOptions& options, DataParallel& engine);
  static void AddBucket(const OptimizerOptions& options, const DataParallel& engine,
                        const GradientBucket& bucket, const at::Tensor& flat, Plan& plan);

  DataParallel& engine_;
  const TensorMemory memory_;
  const std::vector<Shard> shards_;
  const std::vector<at::Tensor> gradients_;
  FusedUpdate update_;
};

}  // namespace ddp::rt
