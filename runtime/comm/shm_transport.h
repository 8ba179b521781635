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
  // A call under way.
  struct Step {
    const Call& call;
    Signature signature;
    Deadline deadline;
    std::chrono::nanoseconds& waiting;
    bool arrived = false;  // its first barrier, which compares signatures, is behind
    // At the deadline the first `excused` places may be held up by ranks elsewhere: this rank waits
    // for them so much longer, for those to speak first who see which rank is late.
    std::size_t excused = 0;
    std::chrono::milliseconds patience{0};
  };

  // `ranks` share the memory, this is the one at `place`; errors call them by these numbers. `file`
  // is the same on all: the first creates it, see ShareFile.
  ShmTransport(int place, std::vector<int> ranks, Fd file, Control& control);
  ~ShmTransport() override;

  // The first rank's new file reaches all over their Unix sockets, which nobody else reads yet.
  static Fd ShareFile(int place, const std::vector<Fd>& sockets, const Deadline& deadline);

  std::string_view name() const override { return "shm"; }
  void Run(const Call& call, std::chrono::nanoseconds& waiting) override;
  std::unique_ptr<Buffer> Allocate(const Call& call) override;
  void Interrupt() override;
  bool PrefersWaiter() const override { return !spare_cores_; }

  // The steps of a call, for a transport that does more than these ranks.
  Step Begin(const Call& call, std::chrono::nanoseconds& waiting) const;
  void Barrier(Step& step);
  std::unique_ptr<Buffer> Allocate(Step& step, std::size_t bytes);
  // Memory in which each rank has `stride` bytes (whole pages), one after the other. Unlike a
  // buffer's it is not given back while a rank has it: others may read on after this one has left.
  Mapping MapForAll(Step& step, std::size_t stride);
  // Where a buffer of Allocate has this memory, + 1; 0 if none has.
  std::uint64_t PlaceOf(const void* data, std::size_t bytes) const;
  // Where all ranks have this call's data in one buffer, + 1; 0 if they have not. After its
  // barrier.
  std::uint64_t CommonPlace(const Step& step) const;
  // The arrays of all ranks at a place.
  std::vector<char*> Arrays(std::uint64_t place) const;

 private:
  struct Header;
  struct Slot;
  struct Arenas;
  class ArenaBuffer;
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
  void AllReduceByParts(Step& step);
  void Broadcast(Step& step);
  void AllGather(Step& step);
  void ReduceScatter(Step& step);

  // Makes the file longer by a stretch for each rank; where they begin.
  std::size_t Grow(Step& step, std::size_t stride);
  Slot& slot(int rank) const;

  const int rank_;  // the place in ranks_
  const std::vector<int> ranks_;
  const int world_size_;  // their number
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
