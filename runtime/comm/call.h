// A collective as the transports see it, and its fingerprint that ranks compare before any data of
// it is used. Plain values.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/comm/types.h"

namespace ddp::rt::comm {

enum class Kind : std::uint8_t {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kBarrier,
  kAllocate,
};

struct Call {
  Kind kind = Kind::kBarrier;
  const void* in = nullptr;  // all-gather and reduce-scatter
  void* out = nullptr;
  // All-reduce, reduce-scatter (one rank's share): elements of `type`. Others: bytes.
  std::uint64_t count = 0;
  DataType type = DataType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  std::uint64_t sequence = 0;  // the n-th call on this group, from 1
  std::string name;
  std::chrono::milliseconds timeout{0};
  std::shared_ptr<void> ready;  // see Transport::MarkReady
  // Threads that stand in Work::Wait of this group: while there are some, spinning hurts nobody.
  const std::atomic<int>* waiters = nullptr;

  std::uint64_t bytes() const {
    const bool typed = kind == Kind::kAllReduce || kind == Kind::kReduceScatter;
    return typed ? count * SizeOf(type) : count;
  }
};

// What must be equal on all ranks. Sent as it is: all ranks run the same program.
struct Signature {
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  Kind kind = Kind::kBarrier;
  DataType type = DataType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::uint8_t unused = 0;
  std::int32_t root = 0;
  // shm: where the data lies in the shared arena, + 1; 0 = elsewhere. Ranks may differ in it.
  std::uint64_t place = 0;
  std::array<char, 32> name{};
};
static_assert(sizeof(Signature) == 64);

Signature SignatureOf(const Call& call);
bool Same(const Signature& a, const Signature& b);
// "all-reduce #12 'bucket 3' (6553600 x f32, mean)"
std::string Describe(const Signature& signature);
// "all-reduce #12 'bucket 3'"
std::string ShortName(const Call& call);

// The part of `count` elements that one rank reduces: parts are multiples of a cache line, so that
// ranks never write the same one.
struct Part {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};
Part PartOf(std::uint64_t count, std::size_t element_size, int rank, int world_size);

}  // namespace ddp::rt::comm
