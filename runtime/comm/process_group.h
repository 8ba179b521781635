// Collectives among the ranks of one attempt, on plain memory (no torch types).
//
// A call queues a work and returns at once; works run one after the other, in the order of the
// calls: on the group's own thread, so that backward goes on meanwhile, or on one that waits for
// them. (shm without a core to spare for that: when somebody waits, or after a second.) All ranks
// must make the same calls in the same order; a difference is an error on every rank that names
// both calls, never a wrong sum. Memory handed in must stay valid, and untouched, until the work is
// done.
//
// Failure: the first one breaks the group for good. Every work, running, queued or later, then
// throws the same Error(kUnavailable) that names the rank that went first, on every rank:
//   a process that ended (kill -9 included): within 5 s, as a rule at once;
//   a host or network that went silent: within 15 s on tcp;
//   a rank that lives but does not come: at the operation's deadline, with the ranks missing.
//
// Thread-safety: one thread at a time makes calls (their order is the contract); Abort, stats and
// Work may be used from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/comm/types.h"
#include "runtime/store/store.h"

namespace ddp::rt::comm {

// A queued collective.
class Work {
 public:
  Work() = default;
  virtual ~Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  // Blocks until done; throws the group's error if it failed. Bounded by the operations' deadlines.
  virtual void Wait() = 0;
  // Done, well or badly; does not block.
  virtual bool Done() const = 0;
};
using WorkPtr = std::shared_ptr<Work>;

struct OpOptions {
  // What errors and logs call it, the same on all ranks: "bucket 3", "epoch loss".
  std::string name;
  // From the start of its execution; 0 = the group's default.
  std::chrono::milliseconds timeout{0};
  // nccl: the cudaStream_t on which the data are being made; null = the default stream.
  void* gpu_stream = nullptr;
};

// Memory that the transport can work on in place (shm: seen by all ranks of the host). Returned by
// Allocate; freed by its destructor, at the latest before the group.
class Buffer {
 public:
  Buffer() = default;
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual void* data() = 0;
  virtual std::size_t size() const = 0;
};

struct Stats {
  std::uint64_t works = 0;              // finished
  std::uint64_t bytes = 0;              // of their payloads
  std::chrono::nanoseconds busy{0};     // the communication thread executing works
  std::chrono::nanoseconds waiting{0};  // of that: until the last rank had arrived
};

class ProcessGroup {
 public:
  ProcessGroup() = default;
  virtual ~ProcessGroup() = default;  // aborts if Shutdown was not called
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // "shm", "tcp", "shm+tcp" (several hosts, some with several ranks), "nccl", "none" (a world of
  // one).
  virtual std::string_view transport() const = 0;
  // Which transport and why, for the log: "shm: all 2 ranks share this host".
  virtual const std::string& description() const = 0;

  // In place.
  virtual WorkPtr AllReduce(void* data, std::size_t count, DataType type, ReduceOp op,
                            OpOptions options) = 0;
  virtual WorkPtr Broadcast(void* data, std::size_t bytes, int root, OpOptions options) = 0;
  // `out` holds world_size * bytes; rank r's part begins at r * bytes. In place if `in` is this
  // rank's part of `out`; no other overlap.
  virtual WorkPtr AllGather(const void* in, void* out, std::size_t bytes, OpOptions options) = 0;
  // `in` holds world_size * count elements; this rank gets the reduction of its part. In
  // place if `out` is this rank's part of `in` (the other parts of `in` keep their values); no
  // other overlap.
  virtual WorkPtr ReduceScatter(const void* in, void* out, std::size_t count, DataType type,
                                ReduceOp op, OpOptions options) = 0;
  virtual WorkPtr Barrier(OpOptions options) = 0;

  // Zeroed memory for data that is reduced often, aligned to 64 bytes. All ranks call it, with the
  // same size; works on it are quickest at the same offset on all ranks. Blocks.
  virtual std::unique_ptr<Buffer> Allocate(std::size_t bytes, OpOptions options) = 0;

  // Breaks the group on all ranks: their works fail with "rank R: <reason>". Returns at once.
  virtual void Abort(const std::string& reason) = 0;
  // Finishes queued works within the timeout (else aborts), says good-bye to the others and ends
  // the threads. Never hangs, also if another rank left without it. Throws the group's error if a
  // work failed that nobody has waited for. The second call does nothing.
  virtual void Shutdown(std::chrono::milliseconds timeout) = 0;

  virtual Stats stats() const = 0;
};

enum class TransportKind { kAuto, kShm, kTcp, kNccl };

// "auto", "shm", "tcp", "nccl"; Error(kConfig) for anything else lists them.
TransportKind ParseTransport(std::string_view text);

struct GroupOptions {
  int rank = 0;
  int world_size = 1;
  std::string job_uid;  // with `attempt`: checked when ranks connect
  int attempt = 0;
  TransportKind transport = TransportKind::kAuto;
  // tcp listens on the interface that routes to this address; "" = loopback.
  std::string master_addr;
  // What the calls will be given is GPU memory, on the device of this number.
  bool gpu_memory = false;
  int local_rank = 0;
  std::chrono::milliseconds init_timeout = std::chrono::minutes(5);
  std::chrono::milliseconds op_timeout = std::chrono::minutes(5);
  // Equal for ranks that may share memory; "" = found out. Tests of several hosts set it.
  std::string host_for_test = {};
  // Keys of this group in the store; a second group of the same ranks needs another name.
  std::string name = "default";
};

// Every rank calls it; returns when all are connected. kAuto: nccl in a CUDA build with a GPU on
// every rank, else shm if all ranks prove that they share this host, else shm+tcp if some do, else
// tcp. A transport asked for by name that cannot be had is Error(kConfig) with the reason.
std::unique_ptr<ProcessGroup> CreateProcessGroup(store::Store& store, const GroupOptions& options);

}  // namespace ddp::rt::comm
