#include "runtime/comm/hierarchical_transport.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/comm/kernels.h"

namespace ddp::rt::comm {
namespace {

// One half of a rank's shared area.
constexpr std::size_t kHalf = std::size_t{8} << 20;
// All ranks' data together up to here: every rank reduces everything, after one exchange.
constexpr std::size_t kSmall = std::size_t{256} << 10;
// Who waits for a rank of another host gives up this much after the deadline, and who waits for its
// own leader still later: so that those speak first who see which rank is missing.
constexpr std::chrono::milliseconds kMoment{300};
constexpr std::chrono::milliseconds kTwoMoments{600};

}  // namespace

HierarchicalTransport::HierarchicalTransport(int rank, Hosts hosts, Fd file,
                                             std::vector<Fd> sockets, Control& control)
    : rank_(rank),
      world_size_(static_cast<int>(sockets.size())),
      hosts_(std::move(hosts)),
      host_(hosts_.HostOf(rank)),
      place_(hosts_.PlaceOf(rank)),
      lanes_(hosts_.fewest()),
      interrupt_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      local_(static_cast<int>(place_), locals(), std::move(file), control) {
  DDP_RT_CHECK(static_cast<bool>(interrupt_), ErrnoText(errno));
  if (place_ < lanes_) {
    const auto link = [&](std::size_t host) -> Chain::Link {
      if (host >= hosts_.count()) {
        return {};
      }
      const int peer = hosts_.ranks[host][place_];
      return {sockets[static_cast<std::size_t>(peer)].get(), peer};
    };
    // host_ - 1 wraps around for the first: there is no such host.
    chain_ = std::make_unique<Chain>(rank_, world_size_, link(host_ - 1), link(host_ + 1),
                                     interrupt_.get(), control);
  }
  if (place_ == 0) {
    std::vector<Fd> to_leaders(hosts_.count());
    std::vector<int> ranks;
    for (std::size_t h = 0; h < hosts_.count(); ++h) {
      ranks.push_back(hosts_.ranks[h].front());
      to_leaders[h] = std::move(sockets[static_cast<std::size_t>(ranks.back())]);
    }
    leaders_ = std::make_unique<TcpTransport>(static_cast<int>(host_), std::move(ranks),
                                              std::move(to_leaders), control, kMoment);
    return;
  }
  for (const std::size_t host : {host_ - 1, host_ + 1}) {
    if (chain_ != nullptr && host < hosts_.count()) {
      const auto peer = static_cast<std::size_t>(hosts_.ranks[host][place_]);
      sockets_.push_back(std::move(sockets[peer]));
    }
  }
}

HierarchicalTransport::~HierarchicalTransport() = default;

void HierarchicalTransport::Interrupt() {
  local_.Interrupt();
  if (leaders_ != nullptr) {
    leaders_->Interrupt();
  }
  eventfd_write(interrupt_.get(), 1);
}

void HierarchicalTransport::EnsureStaging(Step& step) {
  if (staging_.size() == 0) {
    staging_ = local_.MapForAll(step, 2 * kHalf);
  }
}

std::vector<char*> HierarchicalTransport::Staged() const {
  std::vector<char*> halves;
  for (std::size_t i = 0; i < locals().size(); ++i) {
    halves.push_back(staging_.data() + (2 * i + stages_ % 2) * kHalf);
  }
  return halves;
}

void HierarchicalTransport::Barrier(Step& step, std::size_t held_up) {
  step.excused = held_up;
  step.patience = kTwoMoments;
  local_.Barrier(step);
}

void HierarchicalTransport::AmongLeaders(Step& step, const Call& call) {
  Barrier(step, 0);
  if (leaders_ != nullptr) {
    leaders_->Run(call, step.waiting);
  }
  Barrier(step, 1);
}

void HierarchicalTransport::Meet(Step& step) {
  Barrier(step, 0);
  if (leaders_ != nullptr) {
    leaders_->Agree(step.call, step.waiting);
  }
  Barrier(step, 1);
}

void HierarchicalTransport::Run(const Call& call, std::chrono::nanoseconds& waiting) {
  Step step = local_.Begin(call, waiting);
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
      return Meet(step);
  }
}

std::unique_ptr<Buffer> HierarchicalTransport::Allocate(const Call& call) {
  std::chrono::nanoseconds ignored{0};
  Step step = local_.Begin(call, ignored);
  Meet(step);
  return local_.Allocate(step, call.count);
}

void HierarchicalTransport::AllReduce(Step& step) {
  const Call& call = step.call;
  if (call.bytes() * static_cast<std::size_t>(world_size_) <= kSmall) {
    return AllReduceSmall(step);
  }
  Meet(step);
  EnsureStaging(step);
  const std::size_t size = SizeOf(call.type);
  const std::size_t chunk = kHalf / size;
  const std::uint64_t place = local_.CommonPlace(step);
  std::vector<char*> arrays = place == 0 ? std::vector<char*>() : local_.Arrays(place);
  for (std::uint64_t begin = 0; begin < call.count; begin += chunk) {
    const std::size_t n = std::min<std::size_t>(chunk, call.count - begin);
    if (place != 0) {
      Reduce(step, arrays, n);
      for (char*& array : arrays) {
        array += n * size;
      }
      continue;
    }
    char* const data = static_cast<char*>(call.out) + begin * size;
    NextHalf();
    const std::vector<char*> halves = Staged();
    std::memcpy(halves[place_], data, n * size);
    Barrier(step, 0);
    Reduce(step, halves, n);
    Barrier(step, lanes_);
    std::memcpy(data, halves[place_], n * size);
  }
  if (place != 0) {
    Barrier(step, lanes_);
  }
}

// This rank's slice, in all local ranks' arrays.
void HierarchicalTransport::Reduce(const Step& step, const std::vector<char*>& arrays,
                                   std::size_t count) {
  if (chain_ == nullptr) {
    return;
  }
  const std::size_t size = SizeOf(step.call.type);
  const Part slice = PartOf(count, size, static_cast<int>(place_), static_cast<int>(lanes_));
  std::vector<char*> slices = arrays;
  for (char*& array : slices) {
    array += slice.begin * size;
  }
  chain_->Reduce(step.call, step.deadline, kMoment, slices, place_, slice.count);
}

const char* HierarchicalTransport::Gather(Step& step, const void* in, std::size_t bytes) {
  NextHalf();
  char* const area = Staged().front();
  const auto at = [&](int rank) { return area + static_cast<std::size_t>(rank) * bytes; };
  if (bytes > 0) {
    std::memcpy(at(rank_), in, bytes);
  }
  Barrier(step, 0);
  if (leaders_ != nullptr) {
    std::vector<iovec> blocks;
    for (const auto& ranks : hosts_.ranks) {
      blocks.push_back({at(ranks.front()), ranks.size() * bytes});
    }
    leaders_->GatherBlocks(step.call, blocks, step.waiting);
  }
  Barrier(step, 1);
  return area;
}

void HierarchicalTransport::AllReduceSmall(Step& step) {
  const Call& call = step.call;
  if (staging_.size() == 0) {
    Barrier(step, 0);
    EnsureStaging(step);
  }
  const char* const all = Gather(step, call.out, call.bytes());
  std::vector<const void*> inputs;
  for (int r = 0; r < world_size_; ++r) {
    inputs.push_back(all + static_cast<std::size_t>(r) * call.bytes());
  }
  comm::Reduce(call.type, call.op, inputs.data(), world_size_, call.out, call.count);
}

void HierarchicalTransport::Broadcast(Step& step) {
  const Call& call = step.call;
  const std::size_t root_host = hosts_.HostOf(call.root);
  Meet(step);
  EnsureStaging(step);
  for (std::uint64_t begin = 0; begin < call.count; begin += kHalf) {
    const std::size_t n = std::min<std::size_t>(kHalf, call.count - begin);
    char* const data = static_cast<char*>(call.out) + begin;
    NextHalf();
    const std::vector<char*> halves = Staged();
    char* const half = halves[host_ == root_host ? hosts_.PlaceOf(call.root) : 0];
    if (rank_ == call.root) {
      std::memcpy(half, data, n);
    }
    Call part = call;
    part.out = half;
    part.count = n;
    part.root = static_cast<int>(root_host);
    AmongLeaders(step, part);
    if (rank_ != call.root) {
      std::memcpy(data, half, n);
    }
  }
}

void HierarchicalTransport::AllGather(Step& step) {
  const Call& call = step.call;
  Meet(step);
  EnsureStaging(step);
  const std::size_t chunk = kHalf / static_cast<std::size_t>(world_size_);
  const auto* const in = static_cast<const char*>(call.in);
  for (std::uint64_t begin = 0; begin < call.count; begin += chunk) {
    const std::size_t n = std::min<std::size_t>(chunk, call.count - begin);
    const char* const all = Gather(step, in + begin, n);
    for (int r = 0; r < world_size_; ++r) {
      char* const to =
          static_cast<char*>(call.out) + static_cast<std::size_t>(r) * call.count + begin;
      if (to != in + begin) {
        std::memcpy(to, all + static_cast<std::size_t>(r) * n, n);
      }
    }
  }
}

// As an all-reduce of what is staged, of which each rank takes its part.
void HierarchicalTransport::ReduceScatter(Step& step) {
  const Call& call = step.call;
  Meet(step);
  EnsureStaging(step);
  const std::size_t size = SizeOf(call.type);
  const auto world = static_cast<std::size_t>(world_size_);
  constexpr std::size_t kCacheLine = 64;
  const std::size_t chunk = kHalf / world / kCacheLine * kCacheLine / size;
  const auto* const in = static_cast<const char*>(call.in);
  for (std::uint64_t begin = 0; begin < call.count; begin += chunk) {
    const std::size_t n = std::min<std::size_t>(chunk, call.count - begin);
    NextHalf();
    const std::vector<char*> halves = Staged();
    for (std::size_t r = 0; r < world; ++r) {
      std::memcpy(halves[place_] + r * n * size, in + (r * call.count + begin) * size, n * size);
    }
    Barrier(step, 0);
    Reduce(step, halves, world * n);
    Barrier(step, lanes_);
    std::memcpy(static_cast<char*>(call.out) + begin * size,
                halves[place_] + static_cast<std::size_t>(rank_) * n * size, n * size);
  }
}

}  // namespace ddp::rt::comm
