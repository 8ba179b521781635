// Collectives among hosts that run several ranks each: shared memory within a host, TCP between
// hosts, so that only one sum (not one for each rank) crosses a link.
//
// A call: barrier within each host; the first ranks of all hosts ("leaders") compare signatures;
// barrier again; then the data; a last barrier. Small all-reduces and gathers: leaders exchange
// what their ranks have put into a shared area, and everybody takes it from there. Large
// all-reduces run along the hosts in the order of ranks (see chain.h), one slice for each of
// several ranks of a host; memory from Allocate is reduced where it is, other memory in a shared
// area of two halves. Halves alternate: before a rank writes one again it has passed a barrier that
// every reader of its former content had reached after reading.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/chain.h"
#include "runtime/comm/hosts.h"
#include "runtime/comm/shm_transport.h"
#include "runtime/comm/tcp_transport.h"

namespace ddp::rt::comm {

class HierarchicalTransport final : public Transport {
 public:
  // `sockets` leads to every rank, for data; those that are not needed are closed. `file` is shared
  // among this host's ranks: see ShmTransport.
  HierarchicalTransport(int rank, Hosts hosts, Fd file, std::vector<Fd> sockets, Control& control);
  ~HierarchicalTransport() override;

  std::string_view name() const override { return "shm+tcp"; }
  void Run(const Call& call, std::chrono::nanoseconds& waiting) override;
  std::unique_ptr<Buffer> Allocate(const Call& call) override;
  void Interrupt() override;

 private:
  using Step = ShmTransport::Step;

  const std::vector<int>& locals() const { return hosts_.ranks[host_]; }
  // Makes the shared areas at the first call that needs them. After its first barrier: only ranks
  // in the same call may allocate together.
  void EnsureStaging(Step& step);
  // The half of each local rank's area that is current; NextHalf moves on.
  std::vector<char*> Staged() const;
  void NextHalf() { ++stages_; }

  // Among this host's ranks, after something for which the first `held_up` may have had to wait for
  // other hosts.
  void Barrier(Step& step, std::size_t held_up);
  // All ranks of all hosts are in this call when it returns.
  void Meet(Step& step);
  // Runs a call among the leaders, between two barriers.
  void AmongLeaders(Step& step, const Call& call);
  // All ranks' `bytes` bytes at `in`, one after the other, in the memory that this returns.
  const char* Gather(Step& step, const void* in, std::size_t bytes);
  void Reduce(const Step& step, const std::vector<char*>& arrays, std::size_t count);

  void AllReduce(Step& step);
  void AllReduceSmall(Step& step);
  void Broadcast(Step& step);
  void AllGather(Step& step);
  void ReduceScatter(Step& step);

  const int rank_;
  const int world_size_;
  const Hosts hosts_;
  const std::size_t host_;
  const std::size_t place_;  // among this host's ranks
  const std::size_t lanes_;  // chains: this rank runs the one of its place, if there is one
  const Fd interrupt_;
  std::vector<Fd> sockets_;  // of the lane, unless it is the leader's
  ShmTransport local_;
  std::unique_ptr<TcpTransport> leaders_;  // on leaders only
  std::unique_ptr<Chain> chain_;
  Mapping staging_;           // an area for each local rank
  std::uint64_t stages_ = 0;  // the current half is the lowest bit
};

}  // namespace ddp::rt::comm
