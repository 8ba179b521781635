#include "runtime/ddp/zero_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/ddp/state_pieces.h"

namespace ddp::rt {

ZeroOptimizer::ZeroOptimizer(const OptimizerOptions& options, DataParallel& engine)
    : ZeroOptimizer(options, engine, MakePlan(options, engine)) {}

ZeroOptimizer::ZeroOptimizer(const OptimizerOptions& options, DataParallel& engine, Plan plan)
    : engine_(engine),
      memory_(std::move(plan.memory)),
      shards_(std::move(plan.shards)),
      gradients_(std::move(plan.gradients)),
      update_(options, std::move(plan.targets)) {}

ZeroOptimizer::Plan ZeroOptimizer::MakePlan(const OptimizerOptions& options, DataParallel& engine) {
  if (!engine.options().shard_optimizer && !engine.options().scatter_gradients) {
    throw Error(ExitCode::kConfig,
                "ZeroOptimizer needs an engine whose buckets can be cut: set shard_optimizer (or "
                "scatter_gradients) in its options");
  }
  const at::NoGradGuard no_grad;
  Plan plan;
  std::size_t bytes = 0;
  for (const GradientBucket& bucket : engine.layout().buckets()) {
    bytes += bucket.flat.nbytes();
  }
  plan.memory = TensorMemory(engine.group(), engine.device(), bytes,
                             "parameters of " + engine.options().name);
  std::size_t offset = 0;
  for (const GradientBucket& bucket : engine.layout().buckets()) {
    const at::Tensor flat = plan.memory.At(offset, bucket.flat.sizes(), {1}, bucket.flat.options());
    AddBucket(options, engine, bucket, flat, plan);
    for (const int i : bucket.gradients) {
      const Gradient& gradient = engine.layout().gradients()[static_cast<std::size_t>(i)];
      const at::Tensor& parameter = gradient.parameter.tensor;
      const at::Tensor place =
          plan.memory.At(offset + static_cast<std::size_t>(gradient.offset) * flat.element_size(),
                         parameter.sizes(), parameter.strides(), flat.options());
      place.copy_(parameter.detach());
      parameter.set_data(place);
    }
    offset += flat.nbytes();
  }
  return plan;
}

void ZeroOptimizer::AddBucket(const OptimizerOptions& options, const DataParallel& engine,
                              const GradientBucket& bucket, const at::Tensor& flat, Plan& plan) {
  const std::int64_t length = flat.numel() / engine.group().world_size();
  const std::int64_t begin = engine.group().rank() * length;
  plan.shards.push_back({flat, flat.narrow(0, begin, length)});
  for (const int i : bucket.gradients) {
    const Gradient& gradient = engine.layout().gradients()[static_cast<std::size_t>(i)];
    const at::Tensor& parameter = gradient.parameter.tensor;
    if (!parameter.is_contiguous()) {
      throw Error(ExitCode::kConfig,
                  fmt::format("parameter '{}' is not contiguous: ZeroOptimizer cuts parameters by "
                              "their order in memory",
                              gradient.parameter.name));
    }
    const std::int64_t from = std::max(begin, gradient.offset);
    const std::int64_t to = std::min(begin + length, gradient.offset + parameter.numel());
    if (from < to) {
      plan.targets.push_back({FormatPieceName({.tensor = gradient.parameter.name,
                                               .begin = from - gradient.offset,
                                               .end = to - gradient.offset}),
                              flat.narrow(0, from, to - from),
                              !options.decay_matrices_only || parameter.dim() >= 2});
      plan.gradients.push_back(bucket.flat.narrow(0, from, to - from));
    }
  }
}

void ZeroOptimizer::Step(double learning_rate, const GradientScale& scale) {
  update_.Step(learning_rate, gradients_, scale);
  std::vector<comm::WorkPtr> works;
  works.reserve(shards_.size());
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    works.push_back(engine_.group().AllGather(shards_[i].part.const_data_ptr(),
                                              shards_[i].flat.mutable_data_ptr(),
                                              shards_[i].part.nbytes(),
                                              {.name = fmt::format("parameters of bucket {}", i),
                                               .gpu_stream = StreamOf(engine_.device())}));
  }
  for (const comm::WorkPtr& work : works) {
    work->Wait();
  }
}

}  // namespace ddp::rt
