#include "runtime/ddp/clipping.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "runtime/ddp/gradient_buckets.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp::rt {
namespace {

// What a rank adds to the norm. Where it holds all gradients they are taken one by one in the order
// of the parameters: the norm then does not depend on the buckets, whose order in the first step of
// a resumed run is another than in the run that was not interrupted.
std::vector<at::Tensor> Summands(const DataParallel& engine) {
  if (engine.options().scatter_gradients) {
    return engine.gradient_parts();
  }
  std::vector<at::Tensor> gradients;
  for (const Gradient& gradient : engine.layout().gradients()) {
    gradients.push_back(gradient.place);
  }
  return gradients;
}

}  // namespace

at::Tensor GradientNorm(const DataParallel& engine) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> parts = Summands(engine);
  if (parts.empty()) {
    return at::zeros({1}, at::device(engine.device()).dtype(at::kDouble));
  }
  std::vector<at::Tensor> norms;
  for (const at::Tensor& norm : at::_foreach_norm(parts)) {
    norms.push_back(norm.to(at::kDouble));
  }
  at::Tensor squares = at::stack(norms).square().sum().reshape({1});
  if (engine.options().scatter_gradients) {
    engine.group()
        .AllReduce(squares.mutable_data_ptr(), 1, comm::DataType::kF64, comm::ReduceOp::kSum,
                   {.name = "norm of the gradients", .gpu_stream = StreamOf(squares.device())})
        ->Wait();
  }
  return squares.sqrt_();
}

at::Tensor ClipGradientNorm(const DataParallel& engine, double max_norm) {
  const at::NoGradGuard no_grad;
  const at::Tensor norm = GradientNorm(engine);
  const at::Tensor factor = at::clamp_max(max_norm / (norm + kClipEpsilon), 1.0);
  for (at::Tensor& part : engine.gradient_parts()) {
    part.mul_(factor.to(part.scalar_type()));
  }
  return norm;
}

}  // namespace ddp::rt
