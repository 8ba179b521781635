// Collectives among GPUs through NCCL, on device memory. One communicator and one stream of high
// priority a group. While a call runs the ranks compare signatures over TCP (see arrivals.h), as
// the other transports do before: NCCL itself neither notices different calls nor knows who is
// missing. The host waits for both with the call's deadline, and aborts the communicator when that
// passes, NCCL reports an error, or a peer goes.
//
// Sums are NCCL's own, in an order that depends on its algorithm: equal on all ranks, but not bit
// for bit those of tcp and shm. The mean is a sum followed by one kernel that scales: ncclAvg would
// lose NVLS and precision.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/transport.h"
#include "runtime/store/store.h"

namespace ddp::rt::comm {

struct NcclOptions {
  int rank = 0;
  int world_size = 1;
  int device = 0;   // the CUDA device of this process: LOCAL_RANK
  std::string key;  // prefix in the store
  Deadline deadline = Deadline::In(std::chrono::seconds(0), "");  // of the initialisation
};

// sockets[r] leads to rank r; the own one is empty. Error(kConfig) without CUDA, or without that
// device.
std::unique_ptr<Transport> MakeNcclTransport(const NcclOptions& options, store::Store& store,
                                             std::vector<Fd> sockets, Control& control);

}  // namespace ddp::rt::comm
