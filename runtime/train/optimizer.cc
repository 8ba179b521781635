#include "runtime/train/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <string>
#include <utility>

namespace ddp::rt::train {
namespace {

constexpr double kAdamEpsilon = 1e-8;

std::vector<at::Tensor> Tensors(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const NamedTensor& item : named) {
    tensors.push_back(item.tensor);
  }
  return tensors;
}

std::vector<at::Tensor> Gradients(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

// One zeroed tensor per parameter, named "<what>.<parameter>", also added to the state.
std::vector<at::Tensor> AddState(const std::string& what,
                                 const std::vector<NamedTensor>& parameters,
                                 std::vector<NamedTensor>& state) {
  std::vector<at::Tensor> added;
  for (const NamedTensor& parameter : parameters) {
    added.push_back(at::zeros_like(parameter.tensor.detach()));
    state.push_back({what + "." + parameter.name, added.back()});
  }
  return added;
}

class Sgd final : public Optimizer {
 public:
  Sgd(OptimizerConfig config, const std::vector<NamedTensor>& parameters)
      : config_(std::move(config)), parameters_(Tensors(parameters)) {
    if (config_.momentum > 0) {
      momentum_ = AddState("momentum", parameters, state_);
    }
  }

  void Step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    // A zeroed momentum makes the first step like any other.
    at::_fused_sgd_(parameters_, Gradients(parameters_), momentum_, config_.weight_decay,
                    config_.momentum, learning_rate, /*dampening=*/0, /*nesterov=*/false,
                    /*maximize=*/false, /*is_first_step=*/false);
  }

 private:
  OptimizerConfig config_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> momentum_;
};

class AdamW final : public Optimizer {
 public:
  AdamW(OptimizerConfig config, const std::vector<NamedTensor>& parameters)
      : config_(std::move(config)),
        parameters_(Tensors(parameters)),
        averages_(AddState("average", parameters, state_)),
        squares_(AddState("square", parameters, state_)),
        step_(at::zeros({}, at::kFloat)),
        steps_(parameters.size(), step_) {
    state_.push_back({"step", step_});
  }

  void Step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    step_.add_(1);
    at::_fused_adamw_(parameters_, Gradients(parameters_), averages_, squares_, {}, steps_,
                      learning_rate, config_.beta1, config_.beta2, config_.weight_decay,
                      kAdamEpsilon, /*amsgrad=*/false, /*maximize=*/false);
  }

 private:
  OptimizerConfig config_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> averages_;
  std::vector<at::Tensor> squares_;
  at::Tensor step_;                // one tensor, shared by all parameters
  std::vector<at::Tensor> steps_;  // as the kernel wants it
};

}  // namespace

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerConfig& config,
                                         const std::vector<NamedTensor>& parameters) {
  if (config.name == "adamw") {
    return std::make_unique<AdamW>(config, parameters);
  }
  return std::make_unique<Sgd>(config, parameters);
}

}  // namespace ddp::rt::train
