#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "ddp/error.h"
#include "ddp/process_group.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp {
namespace {

// A contiguous tensor on the group's device, and a way back for those that are not.
class InPlace {
 public:
  InPlace(const at::Tensor& tensor, const char* what)
      : tensor_(tensor.detach()), dense_(tensor_.contiguous()) {
    const at::Device wanted = rt::DeviceOf(DefaultGroup());
    if (tensor.device() != wanted) {
      throw Error(ExitCode::kSoftware,
                  fmt::format("{} got a tensor on {}, but the group works on {}", what,
                              tensor.device().str(), wanted.str()));
    }
  }
  const at::Tensor& dense() const { return dense_; }
  void Finish() {
    if (!dense_.is_same(tensor_)) {
      tensor_.copy_(dense_);
    }
  }

 private:
  at::Tensor tensor_;
  at::Tensor dense_;
};

rt::comm::OpOptions OptionsFor(const char* name, const at::Tensor& tensor) {
  return {.name = name, .gpu_stream = rt::StreamOf(tensor.device())};
}

std::size_t Count(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

}  // namespace

void AllReduce(const at::Tensor& tensor, ReduceOp op) {
  const at::NoGradGuard no_grad;
  InPlace in_place(tensor, "AllReduce");
  const at::Tensor& dense = in_place.dense();
  DefaultGroup()
      .AllReduce(dense.mutable_data_ptr(), Count(dense), rt::ElementTypeOf({"AllReduce", dense}),
                 op, OptionsFor("AllReduce", dense))
      ->Wait();
  in_place.Finish();
}

Pending AllReduceAsync(const at::Tensor& tensor, ReduceOp op) {
  if (!tensor.is_contiguous()) {
    throw Error(ExitCode::kSoftware, "AllReduceAsync takes contiguous tensors only");
  }
  const at::Tensor detached = InPlace(tensor, "AllReduceAsync").dense();
  return {detached, DefaultGroup().AllReduce(detached.mutable_data_ptr(), Count(detached),
                                             rt::ElementTypeOf({"AllReduceAsync", detached}), op,
                                             OptionsFor("AllReduceAsync", detached))};
}

void Broadcast(const at::Tensor& tensor, int root) {
  if (root < 0 || root >= WorldSize()) {
    throw Error(ExitCode::kSoftware,
                fmt::format("Broadcast from rank {} in a world of {}", root, WorldSize()));
  }
  const at::NoGradGuard no_grad;
  InPlace in_place(tensor, "Broadcast");
  const at::Tensor& dense = in_place.dense();
  DefaultGroup()
      .Broadcast(dense.mutable_data_ptr(), dense.nbytes(), root, OptionsFor("Broadcast", dense))
      ->Wait();
  in_place.Finish();
}

at::Tensor AllGather(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const InPlace in_place(tensor, "AllGather");
  const at::Tensor& in = in_place.dense();
  std::vector<std::int64_t> shape = {WorldSize()};
  shape.insert(shape.end(), in.sizes().begin(), in.sizes().end());
  at::Tensor out = at::empty(shape, in.options());
  DefaultGroup()
      .AllGather(in.const_data_ptr(), out.mutable_data_ptr(), in.nbytes(),
                 OptionsFor("AllGather", in))
      ->Wait();
  return out;
}

at::Tensor ReduceScatter(const at::Tensor& tensor, ReduceOp op) {
  const at::NoGradGuard no_grad;
  if (tensor.dim() == 0 || tensor.size(0) % WorldSize() != 0) {
    throw Error(ExitCode::kSoftware,
                fmt::format("ReduceScatter wants a first dimension that divides by the {} ranks",
                            WorldSize()));
  }
  const InPlace in_place(tensor, "ReduceScatter");
  const at::Tensor& in = in_place.dense();
  std::vector<std::int64_t> shape = in.sizes().vec();
  shape[0] /= WorldSize();
  at::Tensor out = at::empty(shape, in.options());
  DefaultGroup()
      .ReduceScatter(in.const_data_ptr(), out.mutable_data_ptr(), Count(out),
                     rt::ElementTypeOf({"ReduceScatter", in}), op, OptionsFor("ReduceScatter", in))
      ->Wait();
  return out;
}

void Barrier(const std::string& name) { DefaultGroup().Barrier({.name = name})->Wait(); }

}  // namespace ddp
