#include "ddp/process_group.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <utility>

#include "ddp/error.h"
#include "ddp/sync_batch_norm.h"
#include "runtime/api/context.h"
#include "runtime/base/log.h"
#include "runtime/comm/cuda.h"
#include "runtime/ddp/torch_cuda.h"

namespace ddp {
namespace {

// How long rank 0 keeps the store open for ranks that leave without a word.
constexpr std::chrono::seconds kLeaveTimeout(5);

// Not destroyed at exit: a program that ends without DestroyProcessGroup shall end, and the other
// ranks see its sockets close.
Context* current = nullptr;

bool WantsGpu(const InitOptions& options) {
  if (options.device && *options.device == at::kCPU) {
    return false;
  }
  const rt::comm::CudaStatus status = rt::comm::ProbeCuda();
  const std::string why = status.devices == 0 ? status.why_none : rt::LoadTorchCuda();
  if (options.device && !why.empty()) {
    throw Error(ExitCode::kConfig, fmt::format("InitProcessGroup was asked for GPUs, but {}", why));
  }
  if (status.devices > 0 && !why.empty()) {
    rt::Log(rt::Level::kWarning, "the GPUs here are not used: {}", why);
  }
  return why.empty();
}

}  // namespace

Context& CurrentContext() {
  if (current == nullptr) {
    throw Error(ExitCode::kSoftware, "there is no process group: call ddp::InitProcessGroup first");
  }
  return *current;
}

void InitProcessGroup(const InitOptions& options) {
  if (current != nullptr) {
    throw Error(ExitCode::kSoftware,
                "there is a process group already: call ddp::DestroyProcessGroup before another "
                "ddp::InitProcessGroup");
  }
  auto context = std::make_unique<Context>();
  context->env = rt::ReadRankEnv(rt::ProcessEnv());
  rt::SetLogRank(context->env.rank, context->env.world_size);
  const auto transport = rt::comm::ParseTransport(options.backend);
  context->gpu = WantsGpu(options);
  context->rendezvous = std::make_unique<rt::store::Rendezvous>(
      context->env, rt::store::RendezvousOptions{.init_timeout = options.init_timeout,
                                                 .shutdown_timeout = kLeaveTimeout});
  context->group = rt::comm::CreateProcessGroup(context->rendezvous->store(),
                                                {.rank = context->env.rank,
                                                 .world_size = context->env.world_size,
                                                 .job_uid = context->env.job_uid,
                                                 .attempt = context->env.attempt,
                                                 .transport = transport,
                                                 .master_addr = context->env.master_addr,
                                                 .gpu_memory = context->gpu,
                                                 .local_rank = context->env.local_rank,
                                                 .init_timeout = options.init_timeout,
                                                 .op_timeout = options.timeout});
  rt::Log(rt::Level::kInfo, "connected {}", context->group->description());
  current = context.release();
}

void DestroyProcessGroup(std::chrono::milliseconds timeout) {
  const std::unique_ptr<Context> context(std::exchange(current, nullptr));
  if (context == nullptr) {
    return;
  }
  context->batch_norms.clear();
  try {
    context->group->Shutdown(timeout);
  } catch (const std::exception& e) {
    rt::Log(rt::Level::kWarning, "a collective had failed before the group was destroyed: {}",
            e.what());
  }
  context->group.reset();
  context->rendezvous->Shutdown();
}

bool IsInitialized() { return current != nullptr; }
int Rank() { return CurrentContext().env.rank; }
int WorldSize() { return CurrentContext().env.world_size; }
int LocalRank() { return CurrentContext().env.local_rank; }
int LocalWorldSize() { return CurrentContext().env.local_world_size; }
const std::string& TransportDescription() { return CurrentContext().group->description(); }
rt::comm::ProcessGroup& DefaultGroup() { return *CurrentContext().group; }
rt::store::Store& DefaultStore() { return CurrentContext().rendezvous->store(); }

void Abort(const std::string& reason) { DefaultGroup().Abort(reason); }

at::Device SetDevice(int local_rank) {
  if (!CurrentContext().gpu) {
    return at::kCPU;
  }
  const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
  if (local_rank < 0 || local_rank >= cuda.deviceCount()) {
    throw Error(ExitCode::kConfig,
                fmt::format("LOCAL_RANK={} needs a GPU of its own, but this machine shows {} to "
                            "the process",
                            local_rank, static_cast<int>(cuda.deviceCount())));
  }
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(local_rank));
  cuda.setDevice(device);
  return device;
}

std::uint64_t Seed(std::uint64_t base, std::int64_t epoch, int rank, int worker) {
  // Splitmix64's finaliser after each part: it is a bijection, so two seeds of one run differ.
  std::uint64_t seed = base;
  for (const auto part : {static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(rank),
                          static_cast<std::uint64_t>(worker)}) {
    seed += 0x9e3779b97f4a7c15 * (part + 1);
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
    seed ^= seed >> 31;
  }
  return seed;
}

std::size_t ConvertSyncBatchNorm(const torch::nn::Module& module) {
  auto& all = CurrentContext().batch_norms;
  all.push_back(std::make_unique<rt::SyncedBatchNorms>(module, DefaultGroup()));
  return all.back()->size();
}

}  // namespace ddp
