// Chooses the transport and connects the ranks.
#include "runtime/comm/process_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "runtime/base/log.h"
#include "runtime/comm/cuda.h"
#include "runtime/comm/hierarchical_transport.h"
#include "runtime/comm/hosts.h"
#include "runtime/comm/local_transport.h"
#include "runtime/comm/mesh.h"
#include "runtime/comm/nccl_transport.h"
#include "runtime/comm/queued_group.h"
#include "runtime/comm/shm_transport.h"
#include "runtime/comm/tcp_transport.h"

namespace ddp::rt::comm {
namespace {

using Parts = QueuedGroup::Parts;

MeshOptions MeshOptionsOf(const GroupOptions& options, const std::string& transport) {
  return {.rank = options.rank,
          .world_size = options.world_size,
          .job_uid = options.job_uid,
          .attempt = options.attempt,
          .key = fmt::format("comm/{}/{}", options.name, transport),
          .master_addr = options.master_addr,
          .deadline = Deadline::In(options.init_timeout,
                                   fmt::format("all ranks to connect ({})", transport))};
}

// Equal for processes that could share memory: one kernel, and one network namespace, in which
// abstract Unix sockets live. Only a handed-over memory then proves it.
std::string HostIdentity() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  struct stat net {};
  if (boot_id.empty() || stat("/proc/self/ns/net", &net) != 0) {
    return "";
  }
  return fmt::format("{} {} {}", boot_id, net.st_dev, net.st_ino);
}

Parts ConnectShm(store::Store& store, const GroupOptions& options) {
  const MeshOptions mesh_options = MeshOptionsOf(options, "shm");
  Mesh mesh = ConnectUnixMesh(store, mesh_options);
  Fd file = ShmTransport::ShareFile(options.rank, mesh.control, mesh_options.deadline);
  Parts parts;
  parts.control = std::make_unique<Control>(options.rank, std::move(mesh.control));
  parts.transport = std::make_unique<ShmTransport>(options.rank, AllRanks(options.world_size),
                                                   std::move(file), *parts.control);
  return parts;
}

Parts ConnectTcp(store::Store& store, const GroupOptions& options) {
  Mesh mesh = ConnectTcpMesh(store, MeshOptionsOf(options, "tcp"));
  Parts parts;
  parts.control = std::make_unique<Control>(options.rank, std::move(mesh.control));
  parts.transport = std::make_unique<TcpTransport>(options.rank, AllRanks(options.world_size),
                                                   std::move(mesh.data), *parts.control);
  return parts;
}

Parts ConnectHierarchical(store::Store& store, const GroupOptions& options, const Hosts& hosts) {
  const std::size_t host = hosts.HostOf(options.rank);
  const MeshOptions mesh_options = MeshOptionsOf(options, "shm+tcp");
  MeshOptions within = mesh_options;
  within.rank = static_cast<int>(hosts.PlaceOf(options.rank));
  within.world_size = static_cast<int>(hosts.ranks[host].size());
  within.key += fmt::format("/host/{}", host);
  Fd file = ShmTransport::ShareFile(within.rank, ConnectUnixMesh(store, within).control,
                                    mesh_options.deadline);
  Mesh mesh = ConnectTcpMesh(store, mesh_options);
  Parts parts;
  parts.control = std::make_unique<Control>(options.rank, std::move(mesh.control));
  parts.transport = std::make_unique<HierarchicalTransport>(options.rank, hosts, std::move(file),
                                                            std::move(mesh.data), *parts.control);
  return parts;
}

// The first rank that is not content, in a sentence; "" if all are.
std::string FirstObjection(const std::vector<std::string>& votes) {
  for (std::size_t r = 0; r < votes.size(); ++r) {
    if (!votes[r].empty()) {
      return fmt::format("rank {}: {}", r, votes[r]);
    }
  }
  return "";
}

std::vector<std::string> Vote(store::Store& store, const GroupOptions& options, const char* what,
                              const std::string& mine) {
  return store::Exchange(store, fmt::format("comm/{}/{}", options.name, what), options.rank,
                         options.world_size, mine,
                         Deadline::In(options.init_timeout, "all ranks to choose a transport"));
}

// What `connect` makes if it works for all ranks; `why_not` says why it does not. Every rank comes
// to the same answer, as it is put to the vote.
template <typename Connect>
std::optional<Parts> Try(store::Store& store, const GroupOptions& options, const char* what,
                         std::string& why_not, const Connect& connect) {
  std::optional<Parts> parts;
  std::string objection;
  try {
    parts = connect();
  } catch (const Error& e) {
    objection = e.what();
  }
  why_not = FirstObjection(Vote(store, options, what, objection));
  if (why_not.empty()) {
    return parts;
  }
  Log(Level::kWarning, "no shared memory among ranks of one host: {}", why_not);
  return std::nullopt;
}

// Shared memory among all ranks, or among those of each host; nothing, and why, if neither can be.
std::optional<Parts> TrySharedMemory(store::Store& store, const GroupOptions& options,
                                     std::string& why_not) {
  const std::string mine = options.host_for_test.empty() ? HostIdentity() : options.host_for_test;
  const Hosts hosts = GroupByHost(Vote(store, options, "host", mine));
  if (hosts.count() == 1) {
    auto parts =
        Try(store, options, "shm-vote", why_not, [&] { return ConnectShm(store, options); });
    if (parts) {
      parts->description = fmt::format("shm: all {} ranks share this host", options.world_size);
    }
    return parts;
  }
  why_not = fmt::format("rank {} is on another host (or network namespace) than rank 0",
                        hosts.ranks[1].front());
  if (options.transport == TransportKind::kShm) {
    return std::nullopt;
  }
  const std::string flat = WhyNotHierarchical(hosts);
  if (!flat.empty()) {
    why_not = fmt::format("{} hosts, and {}", hosts.count(), flat);
    return std::nullopt;
  }
  auto parts = Try(store, options, "shm+tcp-vote", why_not,
                   [&] { return ConnectHierarchical(store, options, hosts); });
  if (parts) {
    parts->description = fmt::format(
        "shm+tcp: {} ranks on {} hosts share memory within each, and TCP carries one sum between "
        "hosts",
        options.world_size, hosts.count());
  }
  return parts;
}

Parts ConnectNccl(store::Store& store, const GroupOptions& options) {
  const std::string none = ProbeCuda().why_none;
  const std::string objection = FirstObjection(Vote(store, options, "nccl-vote", none));
  if (!objection.empty()) {
    throw Error(ExitCode::kConfig,
                fmt::format("GPU memory needs the transport 'nccl', but {}", objection));
  }
  const MeshOptions mesh_options = MeshOptionsOf(options, "nccl");
  Mesh mesh = ConnectTcpMesh(store, mesh_options);
  Parts parts;
  parts.control = std::make_unique<Control>(options.rank, std::move(mesh.control));
  parts.transport = MakeNcclTransport({.rank = options.rank,
                                       .world_size = options.world_size,
                                       .device = options.local_rank,
                                       .key = mesh_options.key,
                                       .deadline = mesh_options.deadline},
                                      store, std::move(mesh.data), *parts.control);
  parts.description = "nccl: the data are in GPU memory";
  return parts;
}

Parts Connect(store::Store& store, const GroupOptions& options) {
  const bool nccl = options.transport == TransportKind::kNccl;
  if (options.gpu_memory && (nccl || options.transport == TransportKind::kAuto)) {
    return ConnectNccl(store, options);
  }
  if (nccl || options.gpu_memory) {
    throw Error(ExitCode::kConfig,
                nccl ? "the transport 'nccl' moves GPU memory only, but this run computes on the "
                       "CPU: use 'auto'"
                     : "GPU memory needs the transport 'nccl' (or 'auto')");
  }
  std::string why_not = "it was asked for";
  if (options.transport != TransportKind::kTcp) {
    if (auto shared = TrySharedMemory(store, options, why_not)) {
      return std::move(*shared);
    }
  }
  if (options.transport == TransportKind::kShm) {
    throw Error(ExitCode::kConfig,
                fmt::format("the transport 'shm' was asked for, but {}: use 'auto'", why_not));
  }
  Parts tcp = ConnectTcp(store, options);
  tcp.description = fmt::format("tcp: {}", why_not);
  return tcp;
}

}  // namespace

TransportKind ParseTransport(std::string_view text) {
  for (const auto& [name, kind] : {std::pair{"auto", TransportKind::kAuto},
                                   {"shm", TransportKind::kShm},
                                   {"tcp", TransportKind::kTcp},
                                   {"nccl", TransportKind::kNccl}}) {
    if (text == name) {
      return kind;
    }
  }
  throw Error(ExitCode::kConfig,
              fmt::format("unknown transport '{}': it is one of auto, shm, tcp, nccl", text));
}

std::unique_ptr<ProcessGroup> CreateProcessGroup(store::Store& store, const GroupOptions& options) {
  Parts parts;
  if (options.world_size == 1 && !options.gpu_memory) {
    parts.control = std::make_unique<Control>(0, std::vector<Fd>(1));
    parts.transport = std::make_unique<LocalTransport>(*parts.control);
    parts.description = "none: a world of one";
  } else {
    parts = Connect(store, options);
  }
  parts.options = options;
  return std::make_unique<QueuedGroup>(std::move(parts));
}

}  // namespace ddp::rt::comm
