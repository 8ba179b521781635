// The wrapper around a model that keeps its replicas equal.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>

#include "ddp/process_group.h"
#include "runtime/ddp/data_parallel.h"
#include "runtime/ddp/uneven_inputs.h"

namespace ddp {

using rt::Compression;      // kNone, kBF16, kF16
using rt::SumToMeanFactor;  // the right mean where ranks have unequal numbers of samples
using rt::UnevenInputs;     // see Replicas::join
using rt::UnevenInputsOptions;

struct DdpOptions {
  // Gradients travel in buckets of about this size (the first and the last are smaller).
  std::size_t bucket_bytes = std::size_t{25} << 20;
  // A parameter may take no part in a backward: this rank then contributes zero to its mean, and
  // where it took part on no rank its .grad is undefined. Off: an Error names it, and the rank.
  bool find_unused_parameters = false;
  // Rank 0's buffers (running statistics) go to all ranks before every training forward.
  bool broadcast_buffers = true;
  // Gradients travel in 16 bits, divided by the number of ranks before they are cast.
  Compression compression = Compression::kNone;
  // For ZeroOptimizer.
  bool shard_optimizer = false;
  // With ZeroOptimizer: a rank gets the mean of its own part of the gradients only, which halves
  // what is sent; .grad is then of no use to anything but ZeroOptimizer, ClipGradNorm and
  // GradScaler.
  bool scatter_gradients = false;
};

// What all wrapped models have in common; their type does not matter to it.
class Replicas {
 public:
  // Gives all ranks rank 0's parameters and buffers. Error(kConfig) names the first tensor that
  // differs among ranks in name, shape, type or order.
  Replicas(const torch::nn::Module& module, const DdpOptions& options);
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  // While what it returns lives, backward only adds to .grad; the first backward after it reduces
  // the sum. For gradient accumulation:
  //   { const auto guard = model.no_sync(); loss(model(first_half)).backward(); }
  //   loss(model(second_half)).backward();
  // Divide the losses by the number of parts.
  [[nodiscard]] rt::DataParallel::NoSync no_sync() { return rt::DataParallel::NoSync(engine_); }

  // A loop in which ranks may have unequal numbers of batches; see UnevenInputs.
  [[nodiscard]] UnevenInputs join(UnevenInputsOptions options = {}) {
    return UnevenInputs(engine_, options);
  }

  // Sets all gradients to zero, in place; the optimizer's zero_grad is as good.
  void ZeroGrad() { engine_.ZeroGrad(); }

  // Error(kSoftware) names the ranks whose parameters differ from rank 0's in any bit.
  void VerifyReplicas() { engine_.VerifyReplicas(); }
  // Of all parameters, here: equal on all ranks, or something is wrong.
  std::uint64_t ParameterHash() const { return engine_.ParameterHash(); }

  rt::DataParallel& engine() { return engine_; }
  const rt::DataParallel& engine() const { return engine_; }

 protected:
  void BeforeForward(bool training);

 private:
  rt::DataParallel engine_;
  const bool broadcast_buffers_;
};

// `Module` is std::shared_ptr<Net>, or a holder made by TORCH_MODULE(Net). After
// loss(model(x)).backward() the .grad of every parameter is the mean over ranks, on every rank.
// Parameters and buffers keep the inner module's names: there is no "module." before them.
template <typename Module>
class DistributedDataParallel : public Replicas {
 public:
  // The module is on its device already, and the same on all ranks but for values. It must not get
  // other parameters afterwards, nor freeze or thaw any.
  explicit DistributedDataParallel(Module module, const DdpOptions& options = {})
      : Replicas(*module, options), module_(std::move(module)) {}

  // The inner module's forward.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    BeforeForward(module_->is_training());
    return module_->forward(std::forward<Inputs>(inputs)...);
  }
  template <typename... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  // For evaluating on some ranks only, and for saving: has no collectives.
  Module& module() { return module_; }
  Module& operator->() { return module_; }

 private:
  Module module_;
};

}  // namespace ddp
