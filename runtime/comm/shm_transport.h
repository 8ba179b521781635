// Collectives through memory that all ranks of one host share.
//
// One counter counts arrivals; the n-th barrier is passed when it reaches n * world. Whoever
// arrives last rings a doorbell (a futex) if somebody sleeps; waiting means: spin briefly, then
// sleep on it. The control thread rings it too, so that a peer's end is noticed at once.
//
// All-reduce of memory from Allocate works in place: barrier, each rank reduces its part of all
// ranks' arrays and writes the result to all of them, barrier. Other memory goes through a staging
// area of two halves a rank, in chunks that stay in cache; two ranks both reduce all of it, as that
// spares a second copy. Halves alternate, which saves a barrier: before a rank writes a half
// again it has passed a barrier that every reader of its former content had reached after reading.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/shm_memory.h"
#include "runtime/comm/transport.h"

namespace ddp::rt::comm {

class ShmTransport final : public Transport {
 public:
  // `file` is the same on all ranks: rank 0 creates it, see ShareFile.
  ShmTransport(int rank, int world_size, Fd file, Control& control);
  ~ShmTransport() override;

  // Rank 0's new file reaches all ranks over the (Unix) control sockets, before Control watches
  // them.
  static Fd ShareFile(int rank, const std::vector<Fd>& sockets, const Deadline& deadline);

  std::string_view name() const override { return "shm"; }
  void Run(const Call& call, std::chrono::nanoseconds& waiting) override;
  std::unique_ptr<Buffer> Allocate(const Call& call) override;
  void Interrupt() override;
  bool PrefersWaiter() const override { return !spare_cores_; }

 private:
  struct Header;
  struct Slot;
  struct Arenas;
  class ArenaBuffer;
  // A call under way.
  struct Step {
    const Call& call;
    Signature signature;
    Deadline deadline;
    std::chrono::nanoseconds& waiting;
    bool arrived = false;  // its first barrier, which compares signatures, is behind
  };

  Step Begin(const Call& call, std::chrono::nanoseconds& waiting) const;
  void Barrier(Step& step);
  bool Passed(std::uint64_t barrier) const;
  bool Spin(const Step& step, std::uint64_t barrier) const;
  void Await(const Step& step, std::uint64_t barrier);
  void CheckPeers(const Step& step, std::uint64_t barrier);
  void CheckSignatures(const Step& step);

  // The half of the own staging area that is free to be written, and from now on the current one.
  char* NextHalf();
  // The current half of a rank.
  char* Staged(int rank) const;
  // Copies into the next half, and passes the barrier after which all may read it.
  void Stage(Step& step, const void* data, std::size_t bytes);
  // Reduces what lies at `offset` in every rank's current half.
  void ReduceStaged(const Step& step, std::size_t offset, void* out, std::size_t count) const;

  void AllReduce(Step& step);
  void AllReduceInPlace(Step& step, std::uint64_t place);
  void AllReduceByAll(Step& step);
  void AllReduceByParts(Step& step);
  void Broadcast(Step& step);
  void AllGather(Step& step);
  void ReduceScatter(Step& step);

  Slot& slot(int rank) const;
  // Where all ranks have this call's data in one arena, + 1; 0 if they have not.
  std::uint64_t CommonPlace(const Step& step) const;

  const int rank_;
  const int world_size_;
  const std::shared_ptr<const Fd> file_;
  Control& control_;
  Mapping shared_;  // header, slots, staging areas
  Header* header_ = nullptr;
  std::uint64_t barrier_ = 0;  // the last one that this rank has arrived at
  std::uint64_t stages_ = 0;   // how often NextHalf was called: the half is the lowest bit
  std::size_t file_size_ = 0;
  const bool enough_cores_;  // one for each rank
  const bool spare_cores_;   // and one for each rank's communication beside it
  std::shared_ptr<Arenas> arenas_;
};

}  // namespace ddp::rt::comm
