// Between tensors and collectives: element types, streams, memory that both work on, and the small
// exchanges that the engine makes. Plain functions; those with a group are collective calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/process_group.h"
#include "runtime/ddp/named_tensor.h"

namespace ddp::rt {

// Error(kConfig) names the tensor if its type can't be reduced.
comm::DataType ElementTypeOf(const NamedTensor& tensor);

// What OpOptions::gpu_stream wants: the current stream of a GPU tensor's device; null on the CPU.
void* StreamOf(const at::Device& device);

// Where a group's collectives want small values: the device of GPU groups, else the CPU.
at::Device DeviceOf(const comm::ProcessGroup& group);

// A piece of zeroed memory on which tensors can be laid. Copies share it.
class TensorMemory {
 public:
  TensorMemory() = default;
  // Memory that the group works on in place, where the group can have it on that device (then all
  // ranks must call it with the same size); else ordinary memory of the device.
  TensorMemory(comm::ProcessGroup& group, const at::Device& device, std::size_t bytes,
               const std::string& name);

  // A tensor of its own on the bytes from `offset` on: not a view in autograd's sense, as a view
  // could not be detached in place, which Optimizer::zero_grad does. It keeps the memory alive.
  at::Tensor At(std::size_t offset, at::IntArrayRef sizes, at::IntArrayRef strides,
                const at::TensorOptions& options) const;
  std::size_t size() const { return size_; }

 private:
  std::shared_ptr<void> owner_;
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

// One value of each rank, in the order of ranks.
std::vector<std::int64_t> GatherInts(comm::ProcessGroup& group, std::int64_t mine,
                                     const std::string& name,
                                     std::chrono::milliseconds timeout = {});
std::int64_t SumInts(comm::ProcessGroup& group, std::int64_t mine, const std::string& name);

}  // namespace ddp::rt
