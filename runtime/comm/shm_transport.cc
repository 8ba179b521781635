#include "runtime/comm/shm_transport.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>

#include "runtime/comm/failures.h"
#include "runtime/comm/kernels.h"

namespace ddp::rt::comm {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHalf = 1 << 20;
// Up to here every rank reduces everything: more arithmetic, but one barrier instead of two.
constexpr std::size_t kSmall = std::size_t{32} << 10;
// What ranks stage at once of memory that is not shared: what they write and read in turn stays in
// the second-level cache.
constexpr std::size_t kChunk = std::size_t{512} << 10;
// Longer than ranks in step need, about what a sleep and wake-up cost.
constexpr std::chrono::microseconds kSpin{50};

std::size_t Cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? static_cast<std::size_t>(CPU_COUNT(&set))
                                                      : 1;
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

struct ShmTransport::Header {
  alignas(kCacheLine) std::atomic<std::uint64_t> arrivals;
  alignas(kCacheLine) std::atomic<std::uint32_t> doorbell;
  alignas(kCacheLine) std::atomic<std::uint32_t> sleepers;
};

struct ShmTransport::Slot {
  // The last barrier this rank has arrived at: to name who is missing.
  alignas(kCacheLine) std::atomic<std::uint64_t> barrier;
  // Of the current call and the one before: a peer may still read the latter.
  alignas(kCacheLine) Signature signatures[2];
};

// The buffers that Allocate has handed out. Shared with them, so that either may go first.
struct ShmTransport::Arenas {
  struct Arena {
    std::size_t offset;  // of rank 0's array in the file; rank r's begins r * stride later
    std::size_t stride;
    char* base;
  };
  std::mutex mutex;
  std::vector<Arena> all;
};

class ShmTransport::ArenaBuffer final : public Buffer {
 public:
  ArenaBuffer(const ShmTransport& transport, std::size_t offset, std::size_t stride,
              std::size_t size)
      : rank_(static_cast<std::size_t>(transport.rank_)),
        offset_(offset),
        stride_(stride),
        size_(size),
        file_(transport.file_),
        arenas_(transport.arenas_),
        mapping_(*file_, offset, stride * static_cast<std::size_t>(transport.world_size_)) {
    ReserveSharedFile(*file_, offset_ + rank_ * stride_, stride_);
    const std::scoped_lock lock(arenas_->mutex);
    arenas_->all.push_back({offset_, stride_, mapping_.data()});
  }
  ~ArenaBuffer() override {
    {
      const std::scoped_lock lock(arenas_->mutex);
      std::erase_if(arenas_->all, [&](const auto& arena) { return arena.offset == offset_; });
    }
    PunchSharedFile(*file_, offset_ + rank_ * stride_, stride_);
  }
  void* data() override { return mapping_.data() + rank_ * stride_; }
  std::size_t size() const override { return size_; }

 private:
  const std::size_t rank_;
  const std::size_t offset_;
  const std::size_t stride_;
  const std::size_t size_;
  const std::shared_ptr<const Fd> file_;
  const std::shared_ptr<Arenas> arenas_;
  const Mapping mapping_;
};

namespace {

// Header and slots, then two halves of staging a rank.
template <typename Header, typename Slot>
std::size_t StagingBegin(int world_size) {
  return RoundUpToPage(sizeof(Header) + sizeof(Slot) * static_cast<std::size_t>(world_size));
}

}  // namespace

Fd ShmTransport::ShareFile(int place, const std::vector<Fd>& sockets, const Deadline& deadline) {
  if (place != 0) {
    return ReceiveDescriptor(sockets[0], deadline);
  }
  const auto world_size = static_cast<int>(sockets.size());
  Fd file = CreateSharedFile();
  GrowSharedFile(file, StagingBegin<Header, Slot>(world_size) + sockets.size() * 2 * kHalf);
  for (std::size_t peer = 1; peer < sockets.size(); ++peer) {
    SendDescriptor(sockets[peer], file, deadline);
  }
  return file;
}

ShmTransport::ShmTransport(int place, std::vector<int> ranks, Fd file, Control& control)
    : rank_(place),
      ranks_(std::move(ranks)),
      world_size_(static_cast<int>(ranks_.size())),
      file_(std::make_shared<const Fd>(std::move(file))),
      control_(control),
      enough_cores_(Cores() >= ranks_.size()),
      spare_cores_(Cores() >= 2 * ranks_.size()),
      arenas_(std::make_shared<Arenas>()) {
  const std::size_t staging = StagingBegin<Header, Slot>(world_size_);
  const std::size_t each = 2 * kHalf;
  file_size_ = staging + ranks_.size() * each;
  ReserveSharedFile(*file_, staging + static_cast<std::size_t>(rank_) * each, each);
  shared_ = Mapping(*file_, 0, file_size_);
  header_ = reinterpret_cast<Header*>(shared_.data());
}

ShmTransport::~ShmTransport() = default;

ShmTransport::Slot& ShmTransport::slot(int rank) const {
  return *(reinterpret_cast<Slot*>(shared_.data() + sizeof(Header)) + rank);
}

void ShmTransport::Interrupt() {
  header_->doorbell.fetch_add(1);
  FutexWakeAll(header_->doorbell);
}

ShmTransport::Step ShmTransport::Begin(const Call& call, std::chrono::nanoseconds& waiting) const {
  control_.Check();
  Step step{call, SignatureOf(call), Deadline::In(call.timeout, {}), waiting};
  if (call.kind == Kind::kAllReduce) {
    step.signature.place = PlaceOf(call.out, call.bytes());
  }
  return step;
}

std::uint64_t ShmTransport::PlaceOf(const void* data, std::size_t bytes) const {
  const auto* const begin = static_cast<const char*>(data);
  const auto rank = static_cast<std::size_t>(rank_);
  const std::scoped_lock lock(arenas_->mutex);
  for (const Arenas::Arena& arena : arenas_->all) {
    const char* const mine = arena.base + rank * arena.stride;
    if (begin >= mine && begin + bytes <= mine + arena.stride) {
      return arena.offset + static_cast<std::size_t>(begin - mine) + 1;
    }
  }
  return 0;
}

std::vector<char*> ShmTransport::Arrays(std::uint64_t place) const {
  std::vector<char*> arrays(ranks_.size());
  const std::scoped_lock lock(arenas_->mutex);
  for (const Arenas::Arena& arena : arenas_->all) {
    if (place - 1 >= arena.offset && place - 1 < arena.offset + arena.stride) {
      for (std::size_t r = 0; r < arrays.size(); ++r) {
        arrays[r] = arena.base + r * arena.stride + (place - 1 - arena.offset);
      }
    }
  }
  return arrays;
}

bool ShmTransport::Passed(std::uint64_t barrier) const {
  return header_->arrivals.load(std::memory_order_acquire) >=
         barrier * static_cast<std::uint64_t>(world_size_);
}

void ShmTransport::Barrier(Step& step) {
  const std::uint64_t barrier = ++barrier_;
  if (!step.arrived) {
    slot(rank_).signatures[step.call.sequence % 2] = step.signature;
  }
  const std::uint64_t arrived = header_->arrivals.fetch_add(1) + 1;
  slot(rank_).barrier.store(barrier, std::memory_order_release);
  if (arrived == barrier * static_cast<std::uint64_t>(world_size_)) {
    header_->doorbell.fetch_add(1);
    if (header_->sleepers.load() > 0) {
      FutexWakeAll(header_->doorbell);
    }
  } else {
    const auto start = Deadline::Clock::now();
    Await(step, barrier);
    if (!step.arrived) {
      step.waiting += Deadline::Clock::now() - start;
    }
  }
  if (!step.arrived) {
    step.arrived = true;
    CheckSignatures(step);
  }
}

// Whether the barrier was passed meanwhile. Not while this rank's own thread still computes and the
// core is its: then only sleeping helps.
bool ShmTransport::Spin(const Step& step, std::uint64_t barrier) const {
  const auto may = [&] { return spare_cores_ || step.call.waiters->load() > 0; };
  const auto until = Deadline::Clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (Passed(barrier)) {
        return true;
      }
      if (enough_cores_) {
        Pause();
      } else {
        sched_yield();  // to the rank that is waited for
      }
    }
  } while (may() && Deadline::Clock::now() < until);
  return false;
}

void ShmTransport::Await(const Step& step, std::uint64_t barrier) {
  if (Spin(step, barrier)) {
    return;
  }
  for (;;) {
    // Read before anything is checked: whatever changes afterwards changes it too, and then the
    // futex does not sleep.
    const std::uint32_t doorbell = header_->doorbell.load();
    if (Passed(barrier)) {
      return;
    }
    CheckPeers(step, barrier);
    header_->sleepers.fetch_add(1);
    FutexWait(header_->doorbell, doorbell,
              step.deadline.Expired() ? step.deadline.at() + step.patience : step.deadline.at());
    header_->sleepers.fetch_sub(1);
  }
}

void ShmTransport::CheckPeers(const Step& step, std::uint64_t barrier) {
  control_.Check();
  std::vector<int> missing;
  std::vector<int> excused;
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    if (slot(static_cast<int>(place)).barrier.load(std::memory_order_acquire) < barrier) {
      if (control_.peer(ranks_[place]) != Peer::kHere) {
        control_.FailGone(ranks_[place], ShortName(step.call));
      }
      (place < step.excused ? excused : missing).push_back(ranks_[place]);
    }
  }
  const auto now = Deadline::Clock::now();
  const auto& late = missing.empty() ? excused : missing;
  const auto until =
      step.deadline.at() + (missing.empty() ? step.patience : std::chrono::seconds(0));
  if (now >= until && !Passed(barrier)) {
    control_.Fail(DeadlineFailure(ranks_[static_cast<std::size_t>(rank_)], ShortName(step.call),
                                  step.deadline, late));
  }
}

void ShmTransport::CheckSignatures(const Step& step) {
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer != rank_) {
      CheckSignature(control_, ranks_[static_cast<std::size_t>(rank_)], step.signature,
                     ranks_[static_cast<std::size_t>(peer)],
                     slot(peer).signatures[step.call.sequence % 2]);
    }
  }
}

char* ShmTransport::NextHalf() {
  ++stages_;
  return Staged(rank_);
}

char* ShmTransport::Staged(int rank) const {
  return shared_.data() + StagingBegin<Header, Slot>(world_size_) +
         (static_cast<std::size_t>(rank) * 2 + stages_ % 2) * kHalf;
}

void ShmTransport::Stage(Step& step, const void* data, std::size_t bytes) {
  char* const half = NextHalf();
  if (bytes > 0) {
    std::memcpy(half, data, bytes);
  }
  Barrier(step);
}

void ShmTransport::ReduceStaged(const Step& step, std::size_t offset, void* out,
                                std::size_t count) const {
  std::vector<const void*> inputs(static_cast<std::size_t>(world_size_));
  for (int r = 0; r < world_size_; ++r) {
    inputs[static_cast<std::size_t>(r)] = Staged(r) + offset;
  }
  Reduce(step.call.type, step.call.op, inputs.data(), world_size_, out, count);
}

void ShmTransport::Run(const Call& call, std::chrono::nanoseconds& waiting) {
  Step step = Begin(call, waiting);
  switch (call.kind) {
    case Kind::kAllReduce:
      return AllReduce(step);
    case Kind::kBroadcast:
      return Broadcast(step);
    case Kind::kAllGather:
      return AllGather(step);
    case Kind::kReduceScatter:
      return ReduceScatter(step);
    case Kind::kBarrier:
    case Kind::kAllocate:
      return Barrier(step);
  }
}

void ShmTransport::AllReduce(Step& step) {
  if (step.call.bytes() <= kSmall) {
    Stage(step, step.call.out, step.call.bytes());
    return ReduceStaged(step, 0, step.call.out, step.call.count);
  }
  Barrier(step);
  const std::uint64_t place = CommonPlace(step);
  if (place != 0) {
    return AllReduceInPlace(step, place);
  }
  AllReduceByParts(step);
}

std::uint64_t ShmTransport::CommonPlace(const Step& step) const {
  const std::uint64_t mine = step.signature.place;
  for (int r = 0; r < world_size_; ++r) {
    if (slot(r).signatures[step.call.sequence % 2].place != mine) {
      return 0;
    }
  }
  return mine;
}

void ShmTransport::AllReduceInPlace(Step& step, std::uint64_t place) {
  const Call& call = step.call;
  const std::size_t size = SizeOf(call.type);
  const std::vector<char*> arrays = Arrays(place);
  const Part part = PartOf(call.count, size, rank_, world_size_);
  std::vector<void*> outs(arrays.size());
  std::transform(arrays.begin(), arrays.end(), outs.begin(),
                 [&](char* array) { return array + part.begin * size; });
  const std::vector<const void*> inputs(outs.begin(), outs.end());
  ReduceToAll(call.type, call.op, inputs.data(), world_size_, outs.data(), world_size_, part.count);
  Barrier(step);
}

void ShmTransport::AllReduceByParts(Step& step) {
  const Call& call = step.call;
  const std::size_t size = SizeOf(call.type);
  const std::size_t chunk = kChunk / size;
  std::vector<const void*> inputs(ranks_.size());
  for (std::uint64_t begin = 0; begin < call.count; begin += chunk) {
    const std::size_t n = std::min<std::size_t>(chunk, call.count - begin);
    char* const data = static_cast<char*>(call.out) + begin * size;
    const Part mine = PartOf(n, size, rank_, world_size_);
    const std::size_t from = mine.begin * size;
    const std::size_t to = from + mine.count * size;
    // The own part is reduced where it is: only the others' are for others to read.
    char* const half = NextHalf();
    std::memcpy(half, data, from);
    std::memcpy(half + to, data + to, n * size - to);
    Barrier(step);
    for (int r = 0; r < world_size_; ++r) {
      inputs[static_cast<std::size_t>(r)] = (r == rank_ ? data : Staged(r)) + from;
    }
    void* const outs[] = {data + from, half + from};
    ReduceToAll(call.type, call.op, inputs.data(), world_size_, outs, 2, mine.count);
    Barrier(step);
    for (int r = 0; r < world_size_; ++r) {
      if (r != rank_) {
        const Part part = PartOf(n, size, r, world_size_);
        std::memcpy(data + part.begin * size, Staged(r) + part.begin * size, part.count * size);
      }
    }
  }
}

void ShmTransport::Broadcast(Step& step) {
  const Call& call = step.call;
  if (call.count == 0) {
    return Barrier(step);
  }
  for (std::uint64_t begin = 0; begin < call.count; begin += kHalf) {
    const std::size_t n = std::min<std::size_t>(kHalf, call.count - begin);
    char* const data = static_cast<char*>(call.out) + begin;
    Stage(step, data, rank_ == call.root ? n : 0);
    if (rank_ != call.root) {
      std::memcpy(data, Staged(call.root), n);
    }
  }
}

void ShmTransport::AllGather(Step& step) {
  const Call& call = step.call;
  if (call.count == 0) {
    return Barrier(step);
  }
  for (std::uint64_t begin = 0; begin < call.count; begin += kHalf) {
    const std::size_t n = std::min<std::size_t>(kHalf, call.count - begin);
    Stage(step, static_cast<const char*>(call.in) + begin, n);
    for (int r = 0; r < world_size_; ++r) {
      char* const to = static_cast<char*>(call.out) + static_cast<std::size_t>(r) * call.count;
      std::memcpy(to + begin, Staged(r), n);
    }
  }
}

void ShmTransport::ReduceScatter(Step& step) {
  const Call& call = step.call;
  if (call.count == 0) {
    return Barrier(step);
  }
  const std::size_t size = SizeOf(call.type);
  const auto world = static_cast<std::size_t>(world_size_);
  const std::size_t chunk = kHalf / world / kCacheLine * kCacheLine / size;
  for (std::uint64_t begin = 0; begin < call.count; begin += chunk) {
    const std::size_t n = std::min<std::size_t>(chunk, call.count - begin);
    char* const half = NextHalf();
    for (std::size_t r = 0; r < world; ++r) {
      const char* const from = static_cast<const char*>(call.in) + (r * call.count + begin) * size;
      std::memcpy(half + r * chunk * size, from, n * size);
    }
    Barrier(step);
    ReduceStaged(step, static_cast<std::size_t>(rank_) * chunk * size,
                 static_cast<char*>(call.out) + begin * size, n);
  }
}

std::unique_ptr<Buffer> ShmTransport::Allocate(const Call& call) {
  std::chrono::nanoseconds ignored{0};
  Step step = Begin(call, ignored);
  return Allocate(step, call.count);
}

std::unique_ptr<Buffer> ShmTransport::Allocate(Step& step, std::size_t bytes) {
  const std::size_t stride = RoundUpToPage(std::max<std::size_t>(bytes, 1));
  return std::make_unique<ArenaBuffer>(*this, Grow(step, stride), stride, bytes);
}

Mapping ShmTransport::MapForAll(Step& step, std::size_t stride) {
  const std::size_t offset = Grow(step, stride);
  ReserveSharedFile(*file_, offset + static_cast<std::size_t>(rank_) * stride, stride);
  return {*file_, offset, stride * ranks_.size()};
}

std::size_t ShmTransport::Grow(Step& step, std::size_t stride) {
  const std::size_t offset = file_size_;
  file_size_ += stride * ranks_.size();
  if (rank_ == 0) {
    GrowSharedFile(*file_, file_size_);
  }
  Barrier(step);  // from here on the file is long enough
  return offset;
}

}  // namespace ddp::rt::comm
