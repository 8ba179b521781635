// AdamW, Adam and SGD on ATen's fused kernels: one call a step (two, if some parameters have no
// weight decay). State is a list of named tensors, restored in place. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runtime/ddp/gradient_scale.h"
#include "runtime/ddp/named_tensor.h"

namespace ddp::rt {

struct OptimizerOptions {
  enum class Kind { kAdamW, kAdam, kSgd } kind = Kind::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // kAdam and kSgd: added to the gradient
  // Weight decay only for parameters of two dimensions or more: not for biases and norms.
  bool decay_matrices_only = false;
  double momentum = 0;  // kSgd
  bool nesterov = false;
};

// What all of them are to a training loop.
class Optimizer {
 public:
  Optimizer() = default;
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters from their gradients; a step that `scale` says is to be left out changes
  // nothing.
  virtual void Step(double learning_rate, const GradientScale& scale) = 0;
  void Step(double learning_rate) { Step(learning_rate, {}); }

  // What a checkpoint keeps; with ZeRO-1 this rank's pieces (state_pieces.h).
  virtual std::vector<NamedTensor> state() const = 0;
  // From what `state` gave: with ZeRO-1 the pieces of all ranks, of any world size. `where` is what
  // errors call the source. Error(kConfig) names what is missing.
  void LoadState(const std::vector<NamedTensor>& state, const std::string& where);
};

// The update itself, on tensors that need not be whole parameters.
class FusedUpdate {
 public:
  struct Target {
    std::string name;  // of the state: "fc.weight", or a piece of it
    at::Tensor parameter;
    bool decay = true;
  };
  FusedUpdate(const OptimizerOptions& options, std::vector<Target> targets);

  // One gradient a target; undefined ones are left alone.
  void Step(double learning_rate, const std::vector<at::Tensor>& gradients,
            const GradientScale& scale);
  std::vector<NamedTensor> state() const;

 private:
  struct Lists;

  const OptimizerOptions options_;
  const std::vector<Target> targets_;
  std::vector<at::Tensor> first_;   // average of gradients, or momentum
  std::vector<at::Tensor> second_;  // average of their squares
  at::Tensor step_;                 // float: steps taken, shared by all parameters
};

// Every rank updates all parameters.
class FusedOptimizer : public Optimizer {
 public:
  // Of these, those that require gradients.
  FusedOptimizer(const OptimizerOptions& options, const std::vector<NamedTensor>& parameters);

  using Optimizer::Step;
  void Step(double learning_rate, const GradientScale& scale) override;
  std::vector<NamedTensor> state() const override { return update_.state(); }

 private:
  std::vector<at::Tensor> parameters_;
  FusedUpdate update_;
};

}  // namespace ddp::rt
