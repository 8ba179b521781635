#include "runtime/ddp/tensor_memory.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <numeric>

#include "runtime/base/error.h"

namespace ddp::rt {

comm::DataType ElementTypeOf(const NamedTensor& tensor) {
  switch (tensor.tensor.scalar_type()) {
    case at::kFloat:
      return comm::DataType::kF32;
    case at::kDouble:
      return comm::DataType::kF64;
    case at::kBFloat16:
      return comm::DataType::kBF16;
    case at::kHalf:
      return comm::DataType::kF16;
    case at::kInt:
      return comm::DataType::kI32;
    case at::kLong:
      return comm::DataType::kI64;
    default:
      throw Error(ExitCode::kConfig,
                  fmt::format("'{}' is of type {}: collectives reduce float, double, bfloat16, "
                              "half, int32 and int64",
                              tensor.name, c10::toString(tensor.tensor.scalar_type())));
  }
}

void* StreamOf(const at::Device& device) {
  if (device.is_cpu()) {
    return nullptr;
  }
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

at::Device DeviceOf(const comm::ProcessGroup& group) {
  if (group.transport() != "nccl") {
    return at::kCPU;
  }
  return c10::impl::VirtualGuardImpl(at::kCUDA).getDevice();
}

TensorMemory::TensorMemory(comm::ProcessGroup& group, const at::Device& device, std::size_t bytes,
                           const std::string& name)
    : size_(bytes) {
  if (device.is_cpu() != (group.transport() == "nccl")) {
    std::shared_ptr<comm::Buffer> buffer = group.Allocate(bytes, {.name = name});
    data_ = static_cast<char*>(buffer->data());
    owner_ = std::move(buffer);
    return;
  }
  auto tensor = std::make_shared<at::Tensor>(
      at::zeros({static_cast<std::int64_t>(bytes)}, at::device(device).dtype(at::kByte)));
  data_ = static_cast<char*>(tensor->mutable_data_ptr());
  owner_ = std::move(tensor);
}

at::Tensor TensorMemory::At(std::size_t offset, at::IntArrayRef sizes, at::IntArrayRef strides,
                            const at::TensorOptions& options) const {
  return at::from_blob(
      data_ + offset, sizes, strides, [owner = owner_](void*) {}, options.requires_grad(false));
}

std::vector<std::int64_t> GatherInts(comm::ProcessGroup& group, std::int64_t mine,
                                     const std::string& name, std::chrono::milliseconds timeout) {
  const at::NoGradGuard no_grad;
  const auto options = at::device(DeviceOf(group)).dtype(at::kLong);
  const at::Tensor in = at::full({1}, mine, options);
  const at::Tensor out = at::empty({group.world_size()}, options);
  group
      .AllGather(in.const_data_ptr(), out.mutable_data_ptr(), in.nbytes(),
                 {.name = name, .timeout = timeout, .gpu_stream = StreamOf(in.device())})
      ->Wait();
  const at::Tensor host = out.cpu();
  const auto* const values = host.const_data_ptr<std::int64_t>();
  return {values, values + host.numel()};
}

std::int64_t SumInts(comm::ProcessGroup& group, std::int64_t mine, const std::string& name) {
  const auto all = GatherInts(group, mine, name);
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

}  // namespace ddp::rt
