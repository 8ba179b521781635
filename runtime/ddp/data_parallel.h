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
// (optimizer.zero_grad(set_to_none) is tolerated, and free of copies if BeginForward is called).
// The parameters must stay the same tensors; the group and the store must outlive this object. CPU
// and GPU alike: all parameters on one device. Not thread-safe: the thread that runs backward owns
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/process_group.h"
#include "runtime/ddp/bucket_reducer.h"
#include "runtime/ddp/named_tensor.h"
#include "runtime/store/store.h"

namespace ddp::rt {

struct DataParallelOptions {
  std::size_t bucket_bytes = std::size_t{25} << 20;
  // Small, so that communication starts early.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  // Small, because the last all-reduce is the one that nothing hides.
  std::size_t last_bucket_bytes = std::size_t{1} << 20;
  // Gradients travel in 16 bits.
  Compression compression = Compression::kNone;
  // A parameter may stay without a gradient in a backward: this rank then contributes zero to its
  // mean, and where no rank has one its .grad is left undefined. Off: that is an error which names
  // the parameter. On costs one small all-reduce a step, and the buckets keep their first order.
  bool find_unused_parameters = false;
  // For ZeroOptimizer: every bucket can be cut into one equal part a rank, and keeps its first
  // order.
  bool shard_optimizer = false;
  // Besides, a rank gets the mean of its own part of every bucket only (gradient_parts), which
  // saves the other half of the all-reduce; what .grad has elsewhere is then of no use.
  bool scatter_gradients = false;
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

  // Before a forward of which there will be a backward, where ZeroGrad may not have been called:
  // moves buckets as ZeroGrad does, and puts gradients that were set to nothing back into them.
  void BeginForward();

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

  // Whether the next backward reduces: no NoSync lives.
  bool reduces() const;

  // Takes part in the others' backward without one of its own: reduces the gradients as they are
  // (zeros, after ZeroGrad). For a rank that has run out of data; see UnevenInputs.
  void ReduceWithoutBackward();
  // The mean is over this many ranks: those that have data. From the next reduction on.
  void SetDivisor(int ranks);

  // Sends rank 0's buffers (running statistics) to all ranks; call before evaluating or saving.
  void BroadcastBuffers();

  // A hash of all parameters' bytes: equal on all ranks or something is wrong. Local.
  std::uint64_t ParameterHash() const;
  // Compares it over ranks; Error(kSoftware) names the ranks that differ from rank 0.
  void VerifyReplicas();

  // Reduced backward passes so far.
  std::int64_t steps() const;
  // How long the last backward waited for all-reduces after its own work was done.
  std::chrono::nanoseconds exposed() const;

  // The flat gradient buckets in launch order: for optimizers and clipping that work on few large
  // tensors. Invalid after the ZeroGrad (or BeginForward) that follows step 1.
  std::vector<at::Tensor> buckets() const;
  // What this rank holds the mean of: the buckets, or with scatter_gradients its part of each.
  // Gaps between gradients are zero. Valid as long as buckets().
  std::vector<at::Tensor> gradient_parts() const;
  const DataParallelOptions& options() const;
  const at::Device& device() const;
  comm::ProcessGroup& group() const;
  // Places of the gradients in the buckets: for optimizers on parts of them.
  const GradientBuckets& layout() const;

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
