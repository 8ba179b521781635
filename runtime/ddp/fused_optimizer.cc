#include "runtime/ddp/fused_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <optional>
#include <utility>

#include "runtime/ddp/state_pieces.h"

namespace ddp::rt {
namespace {

using Kind = OptimizerOptions::Kind;

std::optional<at::Tensor> IfDefined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

std::vector<NamedTensor> Trained(const std::vector<NamedTensor>& parameters) {
  std::vector<NamedTensor> trained;
  for (const NamedTensor& named : parameters) {
    if (named.tensor.requires_grad()) {
      trained.push_back(named);
    }
  }
  return trained;
}

std::vector<at::Tensor> Tensors(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const NamedTensor& item : named) {
    tensors.push_back(item.tensor);
  }
  return tensors;
}

std::vector<FusedUpdate::Target> Targets(const OptimizerOptions& options,
                                         const std::vector<NamedTensor>& parameters) {
  std::vector<FusedUpdate::Target> targets;
  for (const auto& [name, tensor] : parameters) {
    targets.push_back({name, tensor, !options.decay_matrices_only || tensor.dim() >= 2});
  }
  return targets;
}

// "average" and the place of the name's range, if it has one, stays at the end.
std::string StateName(const std::string& what, const std::string& target) {
  return what + "." + target;
}

}  // namespace

void Optimizer::LoadState(const std::vector<NamedTensor>& from, const std::string& where) {
  CopyPieces(from, state(), where);
}

FusedUpdate::FusedUpdate(const OptimizerOptions& options, std::vector<Target> targets)
    : options_(options), targets_(std::move(targets)) {
  const bool adam = options_.kind != Kind::kSgd;
  for (const Target& target : targets_) {
    if (adam || options_.momentum > 0) {
      first_.push_back(at::zeros_like(target.parameter.detach()));
    }
    if (adam) {
      second_.push_back(at::zeros_like(target.parameter.detach()));
    }
  }
  const at::Device device = targets_.empty() ? at::kCPU : targets_.front().parameter.device();
  step_ = at::zeros({}, at::device(device).dtype(at::kFloat));
}

// What the kernels take, of the targets with one weight decay.
struct FusedUpdate::Lists {
  std::vector<at::Tensor> parameters, gradients, first, second, steps;
};

void FusedUpdate::Step(double learning_rate, const std::vector<at::Tensor>& gradients,
                       const GradientScale& scale) {
  const at::NoGradGuard no_grad;
  step_.add_(1);
  Lists with_decay;
  Lists without;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    if (!gradients[i].defined()) {
      continue;
    }
    Lists& lists = targets_[i].decay ? with_decay : without;
    lists.parameters.push_back(targets_[i].parameter);
    lists.gradients.push_back(gradients[i]);
    lists.steps.push_back(step_);
    if (!first_.empty()) {
      lists.first.push_back(first_[i]);
    }
    if (!second_.empty()) {
      lists.second.push_back(second_[i]);
    }
  }
  const auto divisor = IfDefined(scale.divisor);
  const auto found_inf = IfDefined(scale.found_inf);
  for (auto* const lists : {&with_decay, &without}) {
    if (lists->parameters.empty()) {
      continue;
    }
    const double decay = lists == &with_decay ? options_.weight_decay : 0;
    if (options_.kind == Kind::kSgd) {
      // A zeroed momentum makes the first step like any other.
      at::_fused_sgd_(lists->parameters, lists->gradients, lists->first, decay, options_.momentum,
                      learning_rate, /*dampening=*/0, options_.nesterov, /*maximize=*/false,
                      /*is_first_step=*/false, divisor, found_inf);
    } else {
      const auto fused = [&](auto&& kernel) {
        kernel(lists->parameters, lists->gradients, lists->first, lists->second, at::TensorList(),
               lists->steps, learning_rate, options_.beta1, options_.beta2, decay, options_.epsilon,
               /*amsgrad=*/false, /*maximize=*/false, divisor, found_inf);
      };
      options_.kind == Kind::kAdamW
          ? fused([](auto&&... a) { at::_fused_adamw_(std::forward<decltype(a)>(a)...); })
          : fused([](auto&&... a) { at::_fused_adam_(std::forward<decltype(a)>(a)...); });
    }
  }
  if (found_inf) {
    step_.sub_(found_inf->squeeze());  // a step that was left out does not count
  }
}

std::vector<NamedTensor> FusedUpdate::state() const {
  std::vector<NamedTensor> state;
  const bool adam = options_.kind != Kind::kSgd;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    state.push_back({StateName(adam ? "average" : "momentum", targets_[i].name), first_[i]});
  }
  for (std::size_t i = 0; i < second_.size(); ++i) {
    state.push_back({StateName("square", targets_[i].name), second_[i]});
  }
  if (adam) {
    state.push_back({"step", step_});
  }
  return state;
}

FusedOptimizer::FusedOptimizer(const OptimizerOptions& options,
                               const std::vector<NamedTensor>& parameters)
    : parameters_(Tensors(Trained(parameters))),
      update_(options, Targets(options, Trained(parameters))) {}

void FusedOptimizer::Step(double learning_rate, const GradientScale& scale) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_) {
    gradients.push_back(parameter.grad());
  }
  update_.Step(learning_rate, gradients, scale);
}

}  // namespace ddp::rt
