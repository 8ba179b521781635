#include "runtime/ddp/replicas.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <memory>

#include "runtime/base/error.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp::rt {
namespace {

// Above this a tensor is sent by itself, from where it lies.
constexpr std::size_t kLarge = std::size_t{1} << 18;

// Tensors packed as bytes into one message.
struct Packet {
  std::vector<at::Tensor> tensors;  // dense
  std::size_t bytes = 0;
  at::Tensor flat;
};

at::Tensor Dense(const at::Tensor& tensor) {
  const at::Tensor detached = tensor.detach();
  return detached.is_non_overlapping_and_dense() ? detached : detached.contiguous();
}

// The elements in the order of memory, as bytes.
at::Tensor Bytes(const at::Tensor& dense) {
  return dense.as_strided({dense.numel()}, {1}).view(at::kByte);
}

void CopyBytes(const Packet& packet, bool into_flat) {
  std::int64_t offset = 0;
  for (const at::Tensor& dense : packet.tensors) {
    const at::Tensor bytes = Bytes(dense);
    const at::Tensor place = packet.flat.narrow(0, offset, bytes.numel());
    into_flat ? place.copy_(bytes) : bytes.copy_(place);
    offset += bytes.numel();
  }
}

}  // namespace

void BroadcastFromZero(comm::ProcessGroup& group, const std::vector<NamedTensor>& tensors,
                       const std::string& what) {
  if (group.world_size() == 1) {
    return;
  }
  const at::NoGradGuard no_grad;
  std::vector<comm::WorkPtr> works;
  const auto send = [&](const at::Tensor& bytes, const std::string& name) {
    works.push_back(group.Broadcast(
        bytes.mutable_data_ptr(), bytes.nbytes(), 0,
        {.name = fmt::format("{} {}", what, name), .gpu_stream = StreamOf(bytes.device())}));
  };
  // Holes and overlaps in memory are not sent: such a tensor goes through a plain copy.
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  Packet small;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor dense = Dense(tensor);
    if (!tensor.is_non_overlapping_and_dense()) {
      copies.emplace_back(tensor.detach(), dense);
    }
    if (dense.nbytes() > kLarge) {
      send(dense, name);
    } else if (dense.numel() > 0) {
      small.bytes += dense.nbytes();
      small.tensors.push_back(dense);
    }
  }
  if (!small.tensors.empty()) {
    small.flat = at::empty({static_cast<std::int64_t>(small.bytes)},
                           small.tensors.front().options().dtype(at::kByte));
    CopyBytes(small, /*into_flat=*/true);
    send(small.flat, fmt::format("values of {} tensors", small.tensors.size()));
  }
  for (const comm::WorkPtr& work : works) {
    work->Wait();
  }
  if (group.rank() != 0) {
    if (!small.tensors.empty()) {
      CopyBytes(small, /*into_flat=*/false);
    }
    for (auto& [tensor, dense] : copies) {
      tensor.copy_(dense);
    }
  }
}

std::uint64_t HashOf(const std::vector<NamedTensor>& tensors) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  DDP_RT_CHECK(state != nullptr, "no memory");
  XXH3_64bits_reset(state.get());
  for (const NamedTensor& named : tensors) {
    const at::Tensor host = Dense(named.tensor).cpu();
    XXH3_64bits_update(state.get(), host.const_data_ptr(), host.nbytes());
  }
  return XXH3_64bits_digest(state.get());
}

void VerifyEqualOnAllRanks(comm::ProcessGroup& group, std::uint64_t hash, std::int64_t step) {
  const auto all = GatherInts(group, static_cast<std::int64_t>(hash), "parameter hashes");
  std::vector<std::size_t> differing;
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0]) {
      differing.push_back(r);
    }
  }
  if (!differing.empty()) {
    throw Error(ExitCode::kSoftware,
                fmt::format("after step {} the parameters of rank(s) {} differ from rank 0's", step,
                            fmt::join(differing, ", ")));
  }
}

}  // namespace ddp::rt
