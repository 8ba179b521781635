// Connects every rank with every other: by TCP, or, on one host, by Unix sockets in the abstract
// namespace (no file, so nothing stays behind whatever is killed). Addresses travel through the
// store; whoever connects must show the group's token, job, attempt and rank. Used once, at start.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/net.h"
#include "runtime/store/store.h"

namespace ddp::rt::comm {

struct MeshOptions {
  int rank = 0;
  int world_size = 1;
  std::string job_uid;
  int attempt = 0;
  std::string key;  // prefix in the store
  // TCP: rank 0 is reached at this name (it listens on all addresses), the others at the address of
  // the interface that routes to it.
  std::string master_addr;
  Deadline deadline = Deadline::In(std::chrono::seconds(0), "");
};

// By rank; the own entries are empty.
struct Mesh {
  std::vector<Fd> control;
  std::vector<Fd> data;  // TCP only
};

Mesh ConnectTcpMesh(store::Store& store, const MeshOptions& options);
Mesh ConnectUnixMesh(store::Store& store, const MeshOptions& options);

}  // namespace ddp::rt::comm
