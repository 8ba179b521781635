// The ranks of a run, and collectives on tensors among them.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/comm/process_group.h"

namespace ddp {

struct InitOptions {
  // "auto", "shm" (all ranks on one host), "tcp", "nccl" (GPU memory). auto: nccl for GPUs, else
  // shm if all ranks share this host, else tcp.
  std::string backend = "auto";
  // Where the tensors of gradients and collectives are; nothing = GPUs if libtorch's CUDA part is
  // loaded and sees one, else the CPU.
  std::optional<at::DeviceType> device = std::nullopt;
  // Until all ranks have come together: names that do not resolve yet and hosts that refuse are
  // tried again until then.
  std::chrono::milliseconds init_timeout = std::chrono::minutes(5);
  // For one collective, from the moment this rank starts it until the slowest has come.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

// Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun, `ddp-worker launch`
// and the operator set them; without them this is the only rank of a world of one. Returns when all
// ranks are connected. Error(kConfig) names a variable that is missing or wrong, a transport that
// cannot be had, or a rank that exists twice; Error(kUnavailable) the ranks that have not come.
void InitProcessGroup(const InitOptions& options = {});

// Finishes queued collectives, says good-bye to the other ranks and lets go of everything. Returns
// within the timeout plus a second, also if other ranks have left without it or hang: that is
// logged. Engines, optimizers and checkpointers that use the group must be gone. Safe to call
// twice, and without InitProcessGroup.
void DestroyProcessGroup(std::chrono::milliseconds timeout = std::chrono::seconds(10));

bool IsInitialized();

// Error(kSoftware) before InitProcessGroup.
int Rank();
int WorldSize();
int LocalRank();       // among the ranks of this host
int LocalWorldSize();  // how many there are on this host
// "shm: all 2 ranks share this host": which transport, and why.
const std::string& TransportDescription();

// Makes GPU number `local_rank` this thread's current one and returns it; the CPU if the group is
// one of the CPU. To be called before the first tensor is made. Error(kConfig) if there are fewer
// GPUs.
at::Device SetDevice(int local_rank);

// A seed for random choices that shall differ by epoch, rank and worker thread, and not by chance:
// all seeds of a run are distinct. For what shall be the same everywhere (initial parameters) use
// `base` itself.
std::uint64_t Seed(std::uint64_t base, std::int64_t epoch, int rank, int worker = 0);

// kSum, kMean, kMax: in the order of ranks, so results are equal to the bit on all ranks and in all
// runs. 16-bit floats are summed in float and rounded once.
using ReduceOp = rt::comm::ReduceOp;

// Collectives. Types: float32, float64, bfloat16, float16, int32, int64; Broadcast and AllGather
// take any. Tensors lie on the group's device; every rank passes the same shape and type. They
// block until this rank's result is there, and may not be called while a backward runs. A
// difference between what ranks call is an Error on all of them that names both calls.

// In place, any shape.
void AllReduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::kSum);
// In place: rank `root`'s values.
void Broadcast(const at::Tensor& tensor, int root = 0);
// [...] on each rank to [ranks, ...] on all.
at::Tensor AllGather(const at::Tensor& tensor);
// [ranks * n, ...] on each rank to [n, ...]: the reduction of this rank's part.
at::Tensor ReduceScatter(const at::Tensor& tensor, ReduceOp op = ReduceOp::kSum);
// Returns when all ranks have called it. `name` is what errors call it.
void Barrier(const std::string& name = "barrier");

// A collective that runs while this thread goes on. Keeps the tensor alive; it must not be touched
// before Wait has returned.
class Pending {
 public:
  Pending(at::Tensor tensor, rt::comm::WorkPtr work)
      : tensor_(std::move(tensor)), work_(std::move(work)) {}
  // Throws the group's Error if it failed.
  void Wait() { work_->Wait(); }
  bool Done() const { return work_->Done(); }

 private:
  at::Tensor tensor_;
  rt::comm::WorkPtr work_;
};
// Contiguous tensors only. All ranks start their collectives in the same order.
Pending AllReduceAsync(const at::Tensor& tensor, ReduceOp op = ReduceOp::kSum);

// Tells all ranks that this one fails, and why: whatever they wait for throws at once.
void Abort(const std::string& reason);

// What the parts of this library work on: for code that wants more than there is here. Valid until
// DestroyProcessGroup.
rt::comm::ProcessGroup& DefaultGroup();
rt::store::Store& DefaultStore();

}  // namespace ddp
