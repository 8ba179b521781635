// Who is in which call, told beside the call itself: each rank sends its signature to all others
// and goes on; they compare it while their own part runs. For transports (NCCL) that neither notice
// different calls nor know who is missing, and where a round of messages before each call would
// leave the links idle. Used by one thread.
#pragma once

#include <vector>

#include "runtime/comm/call.h"
#include "runtime/comm/control.h"

namespace ddp::rt::comm {

class Arrivals {
 public:
  // sockets[r] leads to rank r; the own one is empty.
  Arrivals(int rank, std::vector<Fd> sockets, Control& control);

  // Tells all that this rank is in the call. The one before must be complete.
  void Announce(const Call& call);
  // Takes in what has come; true once all ranks are in this call. Never blocks. Fails the group if
  // one is in another call.
  bool Complete();
  // Who has not come yet.
  std::vector<int> Missing() const;

 private:
  struct Peer {
    Signature theirs;
    std::size_t sent = 0;
    std::size_t received = 0;
  };
  void Send(std::size_t peer);
  void Receive(std::size_t peer);

  const int rank_;
  const std::vector<Fd> sockets_;
  Control& control_;
  Signature ours_;
  std::vector<Peer> peers_;
};

}  // namespace ddp::rt::comm
