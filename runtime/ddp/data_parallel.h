// The gradient engine: keeps replicas of a model equal. After construction all ranks hold rank 0's
// parameters and buffers; after each backward() the .grad of every parameter is the mean over
// ranks, and the all-reduces have run while backward was still going on.
//
//   DataParallel replicas(NamedParameters(*model), NamedBuffers(*model), group, store, {});
//   for (batch : loader) {
//     replicas.ZeroGrad();                 // instead of optimizer.zero_grad()
//     loss(model->forward(x), y).backward();
//     replicas.EnsureReduced();            // an error here beats a silent divergence
//     optimizer.step();
//   }
//
// Gradients lie in flat buckets from the start, so nothing is copied on the way
// (optimizer.zero_grad(set_to_none) is tolerated, at the price of one copy). The parameters must
// stay the same tensors; the group and the store must outlive this object. Not thread-safe: the
// thread that runs backward owns it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/process_group.h"
#include "runtime/store/store.h"

namespace ddp::rt {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

struct DataParallelOptions {
  std::size_t bucket_bytes = std::size_t{25} << 20;
  // Small, so that communication starts early.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  // Small, because the last all-reduce is the one that nothing hides.
  std::size_t last_bucket_bytes = std::size_t{1} << 20;
  // For agreement at start and for the rebuilt order: until the slowest rank has come.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // Keys in the store; a second engine on the same store needs another name.
  std::string name = "model";
};

class DataParallel {
 public:
  // Parameters that do not require gradients are broadcast once and then left alone. Error(kConfig)
  // names the first parameter that differs among ranks in name, shape, dtype or order.
  DataParallel(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers,
               comm::ProcessGroup& group, store::Store& store, DataParallelOptions options);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Sets all gradients to zero, in place. Between steps 1 and 2 also moves them into buckets of the
  // order in which rank 0's backward produced them.
  void ZeroGrad();

  // Throws Error(kSoftware) unless a backward has been reduced since the last ZeroGrad.
  void EnsureReduced() const;

  // While one lives, backward only accumulates; the first backward after it reduces the sum.
  class NoSync {
   public:
    explicit NoSync(DataParallel& engine);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& engine_;
  };

  // Sends rank 0's buffers (running statistics) to all ranks; call before evaluating or saving.
  void BroadcastBuffers();

  // A hash of all parameters' bytes: equal on all ranks or something is wrong. Local.
  std::uint64_t ParameterHash() const;
  // Compares it over ranks; Error(kSoftware) names the ranks that differ from rank 0.
  void VerifyReplicas();

  // Reduced backward passes so far.
  std::int64_t steps() const;
  // The flat gradient buckets in launch order: for optimizers and clipping that work on few large
  // tensors. Invalid after the ZeroGrad that follows step 1.
  std::vector<at::Tensor> buckets() const;

  // What happened in the last reduced backward, in order.
  struct Event {
    enum class Kind { kGradientReady, kBucketLaunched, kBackwardEnded, kBucketReduced } kind;
    int index;  // parameter (in the order given) or bucket
  };
  const std::vector<Event>& TraceForTest() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp::rt
