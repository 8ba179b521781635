#include "runtime/ddp/sync_batch_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/nn/modules/batchnorm.h>

#include <map>
#include <mutex>

#include "runtime/base/error.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp::rt {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Every dimension but the channels.
std::vector<std::int64_t> ReducedDims(const at::Tensor& input) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t d = 2; d < input.dim(); ++d) {
    dims.push_back(d);
  }
  return dims;
}

// A value a channel, in the shape that broadcasts over the input.
at::Tensor PerChannel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

// In which sums are taken.
at::ScalarType AccumulationType(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

struct Moments {
  at::Tensor mean;      // [channels]
  at::Tensor variance;  // biased
  double count = 0;     // values a channel, over all ranks
};

// Of all ranks, from each one's mean, variance and count (Chan's formula).
Moments GatherMoments(const at::Tensor& input, comm::ProcessGroup& group) {
  const std::int64_t channels = input.size(1);
  const at::Tensor wide = input.to(AccumulationType(input));
  at::Tensor mine = at::zeros({2 * channels + 1}, wide.options());
  if (wide.numel() > 0) {
    const auto [variance, mean] = at::var_mean(wide, ReducedDims(input), /*unbiased=*/false);
    const std::int64_t per_channel = wide.numel() / channels;
    const at::Tensor count = at::full({1}, static_cast<double>(per_channel), wide.options());
    mine = at::cat({mean, variance, count});
  }
  const at::Tensor all = at::empty({group.world_size(), mine.numel()}, mine.options());
  group
      .AllGather(mine.const_data_ptr(), all.mutable_data_ptr(), mine.nbytes(),
                 {.name = "batch norm statistics", .gpu_stream = StreamOf(mine.device())})
      ->Wait();
  const at::Tensor means = all.narrow(1, 0, channels);
  const at::Tensor variances = all.narrow(1, channels, channels);
  const at::Tensor counts = all.narrow(1, 2 * channels, 1);
  Moments moments;
  moments.count = counts.sum().item<double>();
  if (moments.count == 0) {
    throw Error(ExitCode::kSoftware, "batch norm: no rank has a sample in this step");
  }
  moments.mean = (means * counts).sum(0) / moments.count;
  moments.variance =
      ((variances + (means - moments.mean).square()) * counts).sum(0) / moments.count;
  return moments;
}

void UpdateRunning(const BatchNormArguments& arguments, const Moments& moments) {
  if (arguments.running_mean.defined()) {
    arguments.running_mean.mul_(1 - arguments.momentum)
        .add_(moments.mean.to(arguments.running_mean.scalar_type()), arguments.momentum);
  }
  if (arguments.running_var.defined()) {
    const double unbiased = moments.count / std::max(moments.count - 1, 1.0);
    arguments.running_var.mul_(1 - arguments.momentum)
        .add_(moments.variance.to(arguments.running_var.scalar_type()),
              arguments.momentum * unbiased);
  }
}

// Carries the group from forward to backward.
struct GroupHolder final : torch::CustomClassHolder {
  explicit GroupHolder(comm::ProcessGroup* the_group) : group(the_group) {}
  comm::ProcessGroup* const group;
};

class SyncBatchNormFunction : public torch::autograd::Function<SyncBatchNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const BatchNormArguments& arguments, comm::ProcessGroup* group) {
    const Moments moments = GatherMoments(input, *group);
    UpdateRunning(arguments, moments);
    context->save_for_backward({input, weight, moments.mean, moments.variance});
    context->saved_data["epsilon"] = arguments.epsilon;
    context->saved_data["count"] = moments.count;
    context->saved_data["group"] =
        c10::IValue::make_capsule(c10::make_intrusive<GroupHolder>(group));
    if (input.numel() == 0) {
      return at::empty_like(input);
    }
    // With given statistics this is one kernel over the input.
    return std::get<0>(at::native_batch_norm(input, weight, bias, moments.mean, moments.variance,
                                             /*training=*/false, /*momentum=*/0,
                                             arguments.epsilon));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& mean = saved[2];
    const at::Tensor& variance = saved[3];
    const double epsilon = context->saved_data["epsilon"].toDouble();
    const double count = context->saved_data["count"].toDouble();
    const auto holder = context->saved_data["group"].toCapsule();
    comm::ProcessGroup& group = *static_cast<const GroupHolder&>(*holder).group;

    // Of this rank, a channel: the sum of gradient × normalised input, and of the gradient. They
    // are the gradients of weight and bias, too.
    at::Tensor products = at::zeros_like(mean);
    at::Tensor sums = at::zeros_like(mean);
    const at::Tensor gradient = gradients[0].contiguous(input.suggest_memory_format());
    if (input.numel() > 0) {
      const at::Tensor ones = weight.defined() ? weight : at::ones_like(mean);
      std::tie(std::ignore, products, sums) =
          at::native_batch_norm_backward(gradient, input, ones, mean, variance, {}, {},
                                         /*train=*/false, epsilon, {false, true, true});
    }
    const at::Tensor all =
        at::stack({products.to(mean.scalar_type()), sums.to(mean.scalar_type())});
    group
        .AllReduce(all.mutable_data_ptr(), static_cast<std::size_t>(all.numel()),
                   ElementTypeOf({"batch norm", all}), comm::ReduceOp::kSum,
                   {.name = "batch norm gradients", .gpu_stream = StreamOf(all.device())})
        ->Wait();
    at::Tensor of_input;
    if (context->needs_input_grad(0)) {
      // scale × (gradient − mean of gradients − normalised input × mean of products), multiplied
      // out into gradient × scale + input × slope + offset.
      const at::Tensor inverse = (variance + epsilon).rsqrt();
      const at::Tensor scale =
          weight.defined() ? inverse * weight.to(inverse.scalar_type()) : inverse;
      const at::Tensor slope = scale * inverse * all[0] / -count;
      const at::Tensor offset = scale * all[1] / -count - slope * mean;
      const auto type = mean.scalar_type();
      of_input = at::addcmul(PerChannel(offset, input), input.to(type), PerChannel(slope, input))
                     .addcmul_(gradient.to(type), PerChannel(scale, input))
                     .to(input.scalar_type());
    }
    return {of_input, weight.defined() ? products : at::Tensor(),
            context->needs_input_grad(2) ? sums : at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Which layers are synchronised, and by which group.
class Registry {
 public:
  static Registry& Get() {
    static Registry registry;
    return registry;
  }
  void Add(const at::Tensor& key, comm::ProcessGroup& group) {
    const std::scoped_lock lock(mutex_);
    groups_[key.unsafeGetTensorImpl()] = &group;
  }
  void Remove(const at::Tensor& key) {
    const std::scoped_lock lock(mutex_);
    groups_.erase(key.unsafeGetTensorImpl());
  }
  comm::ProcessGroup* Find(const std::optional<at::Tensor>& key) {
    if (!key || !key->defined()) {
      return nullptr;
    }
    const std::scoped_lock lock(mutex_);
    const auto found = groups_.find(key->unsafeGetTensorImpl());
    return found == groups_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, comm::ProcessGroup*> groups_;
};

at::Tensor BatchNorm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias,
                     const std::optional<at::Tensor>& running_mean,
                     const std::optional<at::Tensor>& running_var, bool training, double momentum,
                     double eps, bool cudnn_enabled) {
  comm::ProcessGroup* group = Registry::Get().Find(weight);
  group = group != nullptr ? group : Registry::Get().Find(running_mean);
  if (!training || group == nullptr) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training,
                                  momentum, eps, cudnn_enabled);
  }
  return SyncBatchNorm(input,
                       {.weight = weight.value_or(at::Tensor()),
                        .bias = bias.value_or(at::Tensor()),
                        .running_mean = running_mean.value_or(at::Tensor()),
                        .running_var = running_var.value_or(at::Tensor()),
                        .momentum = momentum,
                        .epsilon = eps},
                       *group);
}

// From the first call on at::batch_norm goes through BatchNorm, above its own implementation, which
// autograd sees through.
void InstallBatchNorm() {
  static const auto install = [](c10::DispatchKey key) {
    auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", key, __FILE__,
                                                    static_cast<std::uint32_t>(__LINE__));
    library->impl("batch_norm", TORCH_FN(BatchNorm));
    return library;
  };
  static const auto cpu = install(c10::DispatchKey::AutogradCPU);
  static const auto cuda = install(c10::DispatchKey::AutogradCUDA);
}

template <typename Impl>
at::Tensor KeyIf(const torch::nn::Module& module) {
  const auto* const norm = dynamic_cast<const Impl*>(&module);
  if (norm == nullptr) {
    return {};
  }
  return norm->weight.defined() ? norm->weight : norm->running_mean;
}

bool IsBatchNorm(const torch::nn::Module& module) {
  return dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&module) != nullptr;
}

at::Tensor KeyOf(const torch::nn::Module& module) {
  for (at::Tensor key :
       {KeyIf<torch::nn::BatchNorm1dImpl>(module), KeyIf<torch::nn::BatchNorm2dImpl>(module),
        KeyIf<torch::nn::BatchNorm3dImpl>(module)}) {
    if (key.defined()) {
      return key;
    }
  }
  return {};
}

}  // namespace

at::Tensor SyncBatchNorm(const at::Tensor& input, const BatchNormArguments& arguments,
                         comm::ProcessGroup& group) {
  if (input.dim() < 2) {
    throw Error(ExitCode::kSoftware,
                fmt::format("batch norm wants [samples, channels, ...], and got {} dimension(s)",
                            input.dim()));
  }
  return SyncBatchNormFunction::apply(input, arguments.weight, arguments.bias, arguments, &group);
}

SyncedBatchNorms::SyncedBatchNorms(const torch::nn::Module& module, comm::ProcessGroup& group) {
  InstallBatchNorm();
  for (const auto& item : module.named_modules()) {
    if (!IsBatchNorm(*item.value())) {
      continue;
    }
    const at::Tensor key = KeyOf(*item.value());
    if (!key.defined()) {
      throw Error(ExitCode::kConfig,
                  fmt::format("batch norm '{}' has neither a weight nor running statistics: call "
                              "SyncBatchNorm in its place",
                              item.key()));
    }
    keys_.push_back(key);
  }
  for (const at::Tensor& key : keys_) {
    Registry::Get().Add(key, group);
  }
}

SyncedBatchNorms::~SyncedBatchNorms() {
  for (const at::Tensor& key : keys_) {
    Registry::Get().Remove(key);
  }
}

}  // namespace ddp::rt
