#include "runtime/comm/nccl_transport.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <cstring>
#include <thread>

#include "runtime/comm/arrivals.h"
#include "runtime/comm/cuda.h"
#include "runtime/comm/failures.h"
#include "runtime/comm/scale_kernel.h"

namespace ddp::rt::comm {
namespace {

void CheckCuda(cudaError_t result, const char* what) {
  if (result != cudaSuccess) {
    throw Error(ExitCode::kUnavailable,
                fmt::format("CUDA: {}: {}", what, cudaGetErrorString(result)));
  }
}

// ncclInProgress is how a communicator that does not block says "called, not done".
void CheckNccl(ncclResult_t result, const char* what, ncclComm_t comm) {
  if (result != ncclSuccess && result != ncclInProgress) {
    throw Error(
        ExitCode::kUnavailable,
        fmt::format("NCCL: {}: {} ({})", what, ncclGetErrorString(result), ncclGetLastError(comm)));
  }
}

ncclDataType_t NcclTypeOf(DataType type) {
  switch (type) {
    case DataType::kF32:
      return ncclFloat32;
    case DataType::kF64:
      return ncclFloat64;
    case DataType::kBF16:
      return ncclBfloat16;
    case DataType::kF16:
      return ncclFloat16;
    case DataType::kI32:
      return ncclInt32;
    case DataType::kI64:
      return ncclInt64;
  }
  return ncclFloat32;
}

ncclRedOp_t NcclOpOf(ReduceOp op) { return op == ReduceOp::kMax ? ncclMax : ncclSum; }

// Neither CUDA nor NCCL has a wait with a deadline, so that one is built from questions: quick ones
// at first, then every 50 us. `done` answers them.
template <typename Done>
bool PollUntil(const Deadline& deadline, const Done& done) {
  constexpr std::chrono::microseconds kLongestPause(50);
  for (std::chrono::microseconds pause(5);; pause = std::min(pause * 2, kLongestPause)) {
    if (done()) {
      return true;
    }
    if (deadline.Expired()) {
      return false;
    }
    std::this_thread::sleep_for(pause);
  }
}

// Shared by the transport and its buffers, whichever ends first; null once aborted or destroyed.
using Communicator = std::shared_ptr<ncclComm_t>;

// Device memory registered with the communicator, so that NCCL can work on it without its own
// copies.
class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(std::size_t size, Communicator comm) : size_(size), comm_(std::move(comm)) {
    const std::size_t bytes = std::max<std::size_t>(size, 1);
    CheckNccl(ncclMemAlloc(&data_, bytes), "allocating memory", *comm_);
    CheckCuda(cudaMemset(data_, 0, bytes), "clearing memory");
    // Without registration NCCL works as well, only slower.
    if (ncclCommRegister(*comm_, data_, bytes, &registration_) != ncclSuccess) {
      registration_ = nullptr;
    }
  }
  ~DeviceBuffer() override {
    if (registration_ != nullptr && *comm_ != nullptr) {
      ncclCommDeregister(*comm_, registration_);
    }
    ncclMemFree(data_);
  }
  void* data() override { return data_; }
  std::size_t size() const override { return size_; }

 private:
  const std::size_t size_;
  const Communicator comm_;
  void* data_ = nullptr;
  void* registration_ = nullptr;
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(const NcclOptions& options, store::Store& store, std::vector<Fd> sockets,
                Control& control)
      : rank_(options.rank),
        world_size_(options.world_size),
        device_(options.device),
        control_(control),
        arrivals_(options.rank, std::move(sockets), control) {
    CheckCuda(cudaSetDevice(device_), "choosing the device");
    int lowest = 0;
    int highest = 0;
    CheckCuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for priorities");
    CheckCuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest),
              "making a stream");
    CheckCuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "making an event");
    CheckCuda(cudaMalloc(&barrier_, sizeof(float)), "allocating memory");
    CheckCuda(cudaMemset(barrier_, 0, sizeof(float)), "clearing memory");
    Initialise(options, store);
  }

  ~NcclTransport() override {
    cudaSetDevice(device_);
    if (*comm_ != nullptr) {
      End();
    }
    cudaFree(barrier_);
    cudaEventDestroy(done_);
    cudaStreamDestroy(stream_);
  }

  std::string_view name() const override { return "nccl"; }

  // The device is current on the group's thread only.
  bool AnyThread() const override { return false; }
  void Run(const Call& call, std::chrono::nanoseconds& waiting) override {
    control_.Check();
    CheckCuda(cudaSetDevice(device_), "choosing the device");
    const auto start = Deadline::Clock::now();
    const auto deadline = Deadline::In(call.timeout, ShortName(call));
    // What the caller has queued on its stream must be there first; see OpOptions::stream.
    if (call.ready != nullptr) {
      CheckCuda(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(call.ready.get()), 0),
                "waiting for the data");
    }
    Launch(call);
    CheckCuda(cudaEventRecord(done_, stream_), "recording an event");
    // Only now, so that the GPUs are at work meanwhile. A result is good once all ranks turn out to
    // have made the same call.
    arrivals_.Announce(call);
    bool all_here = false;
    const bool finished = PollUntil(deadline, [&] {
      if (!all_here && arrivals_.Complete()) {
        all_here = true;
        waiting += Deadline::Clock::now() - start;
      }
      if (all_here && Finished()) {
        return true;  // also if a peer has ended since: it did its part
      }
      CheckHealth(call);
      return false;
    });
    if (!finished) {
      FailLate(call, deadline);
    }
  }

  std::unique_ptr<Buffer> Allocate(const Call& call) override {
    control_.Check();
    CheckCuda(cudaSetDevice(device_), "choosing the device");
    const auto deadline = Deadline::In(call.timeout, ShortName(call));
    arrivals_.Announce(call);
    if (!PollUntil(deadline, [&] {
          CheckHealth(call);
          return arrivals_.Complete();
        })) {
      FailLate(call, deadline);
    }
    return std::make_unique<DeviceBuffer>(call.count, comm_);
  }

  // Nothing to wake: a running call looks at the control state every few microseconds.
  void Interrupt() override {}

  std::shared_ptr<void> MarkReady(void* stream) override {
    CheckCuda(cudaSetDevice(device_), "choosing the device");
    cudaEvent_t event = nullptr;
    CheckCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
    std::shared_ptr<void> owned(event,
                                [](void* e) { cudaEventDestroy(static_cast<cudaEvent_t>(e)); });
    CheckCuda(cudaEventRecord(event, static_cast<cudaStream_t>(stream)), "recording an event");
    return owned;
  }

 private:
  void Initialise(const NcclOptions& options, store::Store& store) {
    ncclUniqueId id{};
    if (rank_ == 0) {
      CheckNccl(ncclGetUniqueId(&id), "making an id", nullptr);
      store.Set(options.key + "/id", std::string_view(id.internal, sizeof(id.internal)));
    }
    const std::string text =
        store.Get(options.key + "/id", options.deadline.For("rank 0's NCCL id"));
    std::memcpy(id.internal, text.data(), std::min(text.size(), sizeof(id.internal)));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    CheckNccl(ncclCommInitRankConfig(comm_.get(), world_size_, id, rank_, &config), "initialising",
              *comm_);
    const bool ready = PollUntil(options.deadline, [&] { return Settled("initialising"); });
    if (!ready) {
      Abort();
      throw Error(ExitCode::kUnavailable,
                  fmt::format("NCCL had not initialised after {}: set NCCL_DEBUG=INFO to see why",
                              options.deadline.TimeoutText()));
    }
  }

  // Whether NCCL has finished what it was called for last; throws what went wrong in it.
  bool Settled(const char* what) {
    ncclResult_t state = ncclSuccess;
    CheckNccl(ncclCommGetAsyncError(*comm_, &state), what, *comm_);
    CheckNccl(state, what, *comm_);
    return state == ncclSuccess;
  }

  void Launch(const Call& call) {
    switch (call.kind) {
      case Kind::kAllReduce:
        Queue(call, ncclAllReduce(call.out, call.out, call.count, NcclTypeOf(call.type),
                                  NcclOpOf(call.op), *comm_, stream_));
        return Scale(call);
      case Kind::kReduceScatter:
        Queue(call, ncclReduceScatter(call.in, call.out, call.count, NcclTypeOf(call.type),
                                      NcclOpOf(call.op), *comm_, stream_));
        return Scale(call);
      case Kind::kBroadcast:
        return Queue(call, ncclBroadcast(call.out, call.out, call.count, ncclInt8, call.root,
                                         *comm_, stream_));
      case Kind::kAllGather:
        return Queue(call, ncclAllGather(call.in, call.out, call.count, ncclInt8, *comm_, stream_));
      case Kind::kBarrier:
      case Kind::kAllocate:
        return Queue(call,
                     ncclAllReduce(barrier_, barrier_, 1, ncclFloat32, ncclSum, *comm_, stream_));
    }
  }

  // A call on a communicator that does not block may come back before its kernel is on the stream.
  void Queue(const Call& call, ncclResult_t result) {
    const std::string name = ShortName(call);
    CheckNccl(result, name.c_str(), *comm_);
    const auto deadline = Deadline::In(call.timeout, name);
    if (!PollUntil(deadline, [&] { return Settled(name.c_str()); })) {
      throw Error(ExitCode::kUnavailable,
                  fmt::format("NCCL had not started {} after {}", name, deadline.TimeoutText()));
    }
  }

  void Scale(const Call& call) {
    if (call.op == ReduceOp::kMean) {
      CheckCuda(LaunchDivide(call.out, call.count, call.type, world_size_, stream_), "scaling");
    }
  }

  bool Finished() {
    const cudaError_t state = cudaEventQuery(done_);
    if (state == cudaErrorNotReady) {
      return false;
    }
    CheckCuda(state, "waiting for NCCL");
    return true;
  }

  void CheckHealth(const Call& call) {
    if (control_.failure()) {
      Abort();
      control_.Check();
    }
    for (int peer = 0; peer < world_size_; ++peer) {
      if (control_.peer(peer) == Peer::kEnded) {
        Abort();
        control_.FailGone(peer, ShortName(call));
      }
    }
    Settled("running");
  }

  [[noreturn]] void FailLate(const Call& call, const Deadline& deadline) {
    Abort();
    const std::vector<int> missing = arrivals_.Missing();
    if (!missing.empty()) {
      control_.Fail(DeadlineFailure(rank_, ShortName(call), deadline, missing));
    }
    control_.Fail({rank_, ExitCode::kUnavailable,
                   fmt::format("rank {}: NCCL had not finished {} after {}, although all ranks "
                               "had arrived",
                               rank_, ShortName(call), deadline.TimeoutText())});
  }

  void Abort() {
    if (*comm_ != nullptr) {
      ncclCommAbort(*comm_);
      *comm_ = nullptr;
    }
  }

  // Lets go of a healthy communicator within a bound; a broken or slow one is aborted.
  void End() {
    constexpr std::chrono::seconds kBound(5);
    const bool healthy = !control_.failure() && ncclCommFinalize(*comm_) != ncclInternalError;
    const bool ended =
        healthy && PollUntil(Deadline::In(kBound, "NCCL to end"), [&] {
          ncclResult_t state = ncclInProgress;
          return ncclCommGetAsyncError(*comm_, &state) == ncclSuccess && state != ncclInProgress;
        });
    if (ended) {
      ncclCommDestroy(*comm_);
    } else {
      ncclCommAbort(*comm_);
    }
    *comm_ = nullptr;
  }

  const int rank_;
  const int world_size_;
  const int device_;
  Control& control_;
  Arrivals arrivals_;
  const Communicator comm_ = std::make_shared<ncclComm_t>(nullptr);
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  void* barrier_ = nullptr;
};

}  // namespace

CudaStatus ProbeCuda() {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess || devices == 0) {
    return {0, fmt::format("this machine has no usable GPU: {}", cudaGetErrorString(result))};
  }
  return {devices, ""};
}

std::unique_ptr<Transport> MakeNcclTransport(const NcclOptions& options, store::Store& store,
                                             std::vector<Fd> sockets, Control& control) {
  const CudaStatus status = ProbeCuda();
  if (options.device >= status.devices) {
    throw Error(ExitCode::kConfig,
                status.devices == 0
                    ? status.why_none
                    : fmt::format("LOCAL_RANK={} needs a GPU of its own, but this machine shows {} "
                                  "to the process",
                                  options.device, status.devices));
  }
  return std::make_unique<NcclTransport>(options, store, std::move(sockets), control);
}

}  // namespace ddp::rt::comm
