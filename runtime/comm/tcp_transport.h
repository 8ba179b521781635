// Collectives over TCP: every rank has a socket to every other and drives all of them from one
// loop.
//
// All-reduce of N elements on W ranks: rank p owns part p. Each rank sends part p of its data to
// rank p, for all p at once; as soon as a stretch of the own part has come from everybody, it is
// reduced in the order of ranks and goes out to everybody, while later stretches still come in. So
// each rank sends and receives 2 (W-1)/W N, as a ring does, in two hops instead of 2 (W-1), and
// each element is summed by exactly one rank, in one order.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <vector>

#include "runtime/comm/transport.h"

namespace ddp::rt::comm {

class TcpTransport final : public Transport {
 public:
  // `ranks` take part, this is the one at `place`; errors call them by these numbers. sockets[p]
  // leads to the one at place p; the own one is empty. At a deadline this rank waits for a moment
  // more, so that one who knows better who is late speaks first.
  TcpTransport(int place, std::vector<int> ranks, std::vector<Fd> sockets, Control& control,
               std::chrono::milliseconds moment = std::chrono::milliseconds(0));
  ~TcpTransport() override;

  std::string_view name() const override { return "tcp"; }
  void Run(const Call& call, std::chrono::nanoseconds& waiting) override;
  std::unique_ptr<Buffer> Allocate(const Call& call) override;
  void Interrupt() override;
  // Only compares the signatures of a call: returns when all ranks are in it.
  void Agree(const Call& call, std::chrono::nanoseconds& waiting);
  // Each rank sends its block to all others and gets theirs; the lengths may differ.
  void GatherBlocks(const Call& call, const std::vector<iovec>& blocks,
                    std::chrono::nanoseconds& waiting);

 private:
  struct Stream;
  class Exchange;

  // Room for what the other ranks send of the own part; kept for the next call.
  char* Scratch(std::size_t bytes);

  const int rank_;  // the place in ranks_
  const std::vector<int> ranks_;
  const std::chrono::milliseconds moment_;
  const int world_size_;  // their number
  const std::vector<Fd> sockets_;
  Control& control_;
  Fd interrupt_;
  std::vector<char> scratch_;
};

}  // namespace ddp::rt::comm
