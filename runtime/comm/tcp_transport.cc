#include "runtime/comm/tcp_transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "runtime/comm/failures.h"
#include "runtime/comm/kernels.h"
#include "runtime/comm/private_buffer.h"
#include "runtime/comm/socket_wait.h"

namespace ddp::rt::comm {
namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
// How much of the own part is reduced and passed on at a time: fits the second-level cache with the
// inputs of several ranks.
constexpr std::size_t kStretch = std::size_t{128} << 10;

}  // namespace

// What goes to and comes from one peer during one call: a signature each way, then up to two spans
// of memory, sent and received in this order.
struct TcpTransport::Stream {
  static constexpr std::size_t kSpans = 3;
  struct Lane {
    std::array<iovec, kSpans> spans{};
    std::size_t used = 0;
    std::size_t total = 0;
    std::size_t done = 0;
    std::size_t limit = kUnlimited;  // what may be sent so far

    void Add(const void* data, std::size_t size) {
      // iovec serves both directions, hence not const; a lane that sends never writes to it.
      spans[used++] = {const_cast<void*>(data), size};
      total += size;
    }
    std::size_t Available() const { return std::min(limit, total) - done; }
    // The spans that remain, at most `most` bytes of them.
    std::size_t Remaining(std::array<iovec, kSpans>& out, std::size_t most) const {
      std::size_t skip = done;
      std::size_t n = 0;
      for (std::size_t i = 0; i < used && most > 0; ++i) {
        const std::size_t from = std::min(skip, spans[i].iov_len);
        skip -= from;
        const std::size_t size = std::min(spans[i].iov_len - from, most);
        if (size > 0) {
          out[n++] = {static_cast<char*>(spans[i].iov_base) + from, size};
          most -= size;
        }
      }
      return n;
    }
  };

  int fd = -1;
  Signature theirs;
  bool checked = false;
  Lane out;
  Lane in;
};

// One call: the streams to all peers, the reduction that joins them, and the loop.
class TcpTransport::Exchange {
 public:
  Exchange(TcpTransport& transport, const Call& call)
      : transport_(transport),
        call_(call),
        control_(transport.control_),
        ours_(SignatureOf(call)),
        deadline_(Deadline::In(call.timeout, ShortName(call))),
        limit_(Deadline::In(call.timeout + transport.moment_, deadline_.reason())),
        streams_(static_cast<std::size_t>(transport.world_size_)) {
    for (int p = 0; p < transport_.world_size_; ++p) {
      Stream& s = stream(p);
      s.fd = transport_.sockets_[static_cast<std::size_t>(p)].get();
      if (p != transport_.rank_) {
        s.out.Add(&ours_, sizeof(ours_));
        s.in.Add(&s.theirs, sizeof(s.theirs));
      }
    }
  }

  int number(int place) const { return transport_.ranks_[static_cast<std::size_t>(place)]; }
  Stream& stream(int peer) { return streams_[static_cast<std::size_t>(peer)]; }
  template <typename Each>
  void ForPeers(const Each& each) {
    for (int p = 0; p < transport_.world_size_; ++p) {
      if (p != transport_.rank_) {
        each(p, stream(p));
      }
    }
  }
  // Reduces `count` elements of this rank's `own` and everybody's, which comes in as the second
  // span, into `to`; with `pass_on` the result is also what goes out as each peer's third.
  void ReduceInto(const char* own, char* to, std::uint64_t count, bool pass_on) {
    const std::size_t bytes = count * SizeOf(call_.type);
    to_ = to;
    reduce_total_ = bytes;
    pass_on_ = pass_on;
    char* scratch =
        transport_.Scratch(bytes * static_cast<std::size_t>(transport_.world_size_ - 1));
    inputs_.resize(streams_.size());
    ForPeers([&](int p, Stream& s) {
      s.in.Add(scratch, bytes);
      inputs_[static_cast<std::size_t>(p)] = scratch;
      scratch += bytes;
    });
    inputs_[static_cast<std::size_t>(transport_.rank_)] = own;
    if (pass_on) {
      ForPeers([&](int, Stream& s) {
        s.out.limit = s.out.total;
        s.out.Add(to, bytes);
      });
    }
  }

  void Loop(std::chrono::nanoseconds& waiting) {
    const auto start = Deadline::Clock::now();
    bool all_here = false;
    for (;;) {
      bool moved = false;
      ForPeers([&](int p, Stream& s) {
        moved |= Push(p, s);
        moved |= Pull(p, s);
      });
      moved |= ReduceWhatCame();
      if (!all_here && Arrived()) {
        all_here = true;
        waiting += Deadline::Clock::now() - start;
      }
      if (Complete()) {
        return;
      }
      if (moved) {
        last_words_.Reset();
      } else {
        Wait();
      }
    }
  }

 private:
  bool Push(int peer, Stream& s) {
    bool moved = false;
    // A bound on one send keeps the peers abreast of each other.
    constexpr std::size_t kMostAtOnce = std::size_t{512} << 10;
    while (s.out.Available() > 0) {
      std::array<iovec, Stream::kSpans> spans{};
      msghdr message{};
      message.msg_iov = spans.data();
      message.msg_iovlen = s.out.Remaining(spans, std::min(s.out.Available(), kMostAtOnce));
      const ssize_t n = sendmsg(s.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return moved;
      }
      if (n < 0) {
        control_.FailGone(number(peer), ShortName(call_));
      }
      s.out.done += static_cast<std::size_t>(n);
      moved = true;
      if (static_cast<std::size_t>(n) >= kMostAtOnce) {
        return moved;
      }
    }
    return moved;
  }

  bool Pull(int peer, Stream& s) {
    bool moved = false;
    while (s.in.Available() > 0) {
      std::array<iovec, Stream::kSpans> spans{};
      msghdr message{};
      message.msg_iov = spans.data();
      message.msg_iovlen = s.in.Remaining(spans, s.in.Available());
      if (!s.checked) {
        message.msg_iovlen = 1;  // nothing of the data is taken before the signature is known
      }
      const ssize_t n = recvmsg(s.fd, &message, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return moved;
      }
      if (n <= 0) {
        control_.FailGone(number(peer), ShortName(call_));
      }
      s.in.done += static_cast<std::size_t>(n);
      moved = true;
      if (!s.checked && s.in.done >= sizeof(Signature)) {
        CheckSignature(control_, number(transport_.rank_), ours_, number(peer), s.theirs);
        s.checked = true;
      } else if (s.checked) {
        return moved;  // let the others have their turn, and the reduction its data in cache
      }
    }
    return moved;
  }

  // Bytes of the own part that have come from everybody, in whole elements.
  std::size_t CameFromAll() {
    std::size_t came = reduce_total_;
    ForPeers([&](int, Stream& s) {
      const std::size_t data = s.in.done - std::min(s.in.done, sizeof(Signature));
      came = std::min(came, data);
    });
    return came / SizeOf(call_.type) * SizeOf(call_.type);
  }

  bool ReduceWhatCame() {
    if (reduced_ == reduce_total_) {
      return false;
    }
    const std::size_t came = CameFromAll();
    if (came < reduce_total_ && came - reduced_ < kStretch) {
      return false;
    }
    const std::size_t bytes = came - reduced_;
    Reduce(call_.type, call_.op, inputs_.data(), transport_.world_size_, to_ + reduced_,
           bytes / SizeOf(call_.type));
    for (const void*& input : inputs_) {
      input = static_cast<const char*>(input) + bytes;
    }
    reduced_ = came;
    if (pass_on_) {
      ForPeers([&](int, Stream& s) { s.out.limit += bytes; });
    }
    return true;
  }

  bool Arrived() {
    bool arrived = true;
    ForPeers(
        [&](int, Stream& s) { arrived &= s.in.done >= std::min(s.in.total, sizeof(Signature)); });
    return arrived;
  }

  bool Complete() {
    bool complete = reduced_ == reduce_total_;
    ForPeers(
        [&](int, Stream& s) { complete &= s.in.done == s.in.total && s.out.done == s.out.total; });
    return complete;
  }

  void Wait() {
    control_.Check();
    std::vector<pollfd> entries;
    Deadline::Milliseconds left = limit_.Left();
    bool someone_ended = false;
    ForPeers([&](int p, Stream& s) {
      const bool wants_in = s.in.Available() > 0;
      const bool wants_out = s.out.Available() > 0;
      // A peer of which nothing is wanted is left out (-1): its hang-up would end every poll.
      entries.push_back({wants_in || wants_out ? s.fd : -1,
                         static_cast<short>((wants_in ? POLLIN : 0) | (wants_out ? POLLOUT : 0)),
                         0});
      if ((wants_in || s.out.done < s.out.total) && control_.peer(number(p)) != Peer::kHere) {
        someone_ended = true;
        gone_ = gone_ >= 0 ? gone_ : p;
      }
    });
    if (someone_ended) {
      left = std::min(left, last_words_.Left(control_, number(gone_), call_));
    }
    entries.push_back({transport_.interrupt_.get(), POLLIN, 0});
    if (PollOrInterrupt(entries, left, control_) == 0 && limit_.Expired()) {
      FailMissing();
    }
  }

  // At the deadline: who never came, or else whose data for the own part is missing, or what others
  // pass on. If it is more than one, some of them may only be held up by another; one that knows
  // better speaks first, so it is given a moment.
  void FailMissing() {
    const auto behind = [&](std::size_t incoming) {
      std::vector<int> ranks;
      ForPeers([&](int p, Stream& s) {
        if (s.in.done < std::min(s.in.total, incoming)) {
          ranks.push_back(number(p));
        }
      });
      return ranks;
    };
    std::vector<int> missing = behind(sizeof(Signature));
    if (missing.empty()) {
      missing = behind(sizeof(Signature) + reduce_total_);
    }
    if (missing.empty()) {
      missing = behind(kUnlimited);
      ForPeers([&](int p, Stream& s) {
        if (s.in.done == s.in.total && s.out.done < s.out.total) {
          missing.push_back(number(p));
        }
      });
    }
    if (missing.size() > 1 && !extended_) {
      extended_ = true;
      constexpr Deadline::Milliseconds kMoment(500);
      limit_ = Deadline::In(kMoment, deadline_.reason());
      return;
    }
    control_.Fail(DeadlineFailure(number(transport_.rank_), ShortName(call_), deadline_, missing));
  }

  TcpTransport& transport_;
  const Call& call_;
  Control& control_;
  const Signature ours_;
  const Deadline deadline_;
  Deadline limit_;  // the deadline, or a moment more
  bool extended_ = false;
  std::vector<Stream> streams_;
  // The reduction.
  char* to_ = nullptr;
  std::size_t reduce_total_ = 0;
  std::size_t reduced_ = 0;
  bool pass_on_ = false;
  std::vector<const void*> inputs_;  // by rank, where the next stretch begins
  // A peer that is needed and has ended.
  int gone_ = -1;
  LastWords last_words_;
};

TcpTransport::TcpTransport(int place, std::vector<int> ranks, std::vector<Fd> sockets,
                           Control& control, std::chrono::milliseconds moment)
    : rank_(place),
      ranks_(std::move(ranks)),
      moment_(moment),
      world_size_(static_cast<int>(sockets.size())),
      sockets_(std::move(sockets)),
      control_(control),
      interrupt_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  DDP_RT_CHECK(static_cast<bool>(interrupt_), ErrnoText(errno));
}

TcpTransport::~TcpTransport() = default;

void TcpTransport::Interrupt() { eventfd_write(interrupt_.get(), 1); }

char* TcpTransport::Scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) {
    scratch_ = std::vector<char>(bytes);
  }
  return scratch_.data();
}

void TcpTransport::Run(const Call& call, std::chrono::nanoseconds& waiting) {
  control_.Check();
  Exchange exchange(*this, call);
  const auto* in = static_cast<const char*>(call.in);
  auto* out = static_cast<char*>(call.out);
  const std::size_t size = SizeOf(call.type);
  switch (call.kind) {
    case Kind::kAllReduce: {
      const auto at = [&](int r) { return PartOf(call.count, size, r, world_size_); };
      exchange.ForPeers(
          [&](int p, Stream& s) { s.out.Add(out + at(p).begin * size, at(p).count * size); });
      const Part mine = at(rank_);
      char* own = out + mine.begin * size;
      exchange.ReduceInto(own, own, mine.count, true);
      exchange.ForPeers(
          [&](int p, Stream& s) { s.in.Add(out + at(p).begin * size, at(p).count * size); });
      break;
    }
    case Kind::kReduceScatter:
      exchange.ForPeers([&](int p, Stream& s) {
        s.out.Add(in + static_cast<std::size_t>(p) * call.bytes(), call.bytes());
      });
      exchange.ReduceInto(in + static_cast<std::size_t>(rank_) * call.bytes(), out, call.count,
                          false);
      break;
    case Kind::kAllGather:
      exchange.ForPeers([&](int p, Stream& s) {
        s.out.Add(in, call.bytes());
        s.in.Add(out + static_cast<std::size_t>(p) * call.bytes(), call.bytes());
      });
      if (call.bytes() > 0) {
        std::memmove(out + static_cast<std::size_t>(rank_) * call.bytes(), in, call.bytes());
      }
      break;
    case Kind::kBroadcast:
      exchange.ForPeers([&](int p, Stream& s) {
        if (rank_ == call.root) {
          s.out.Add(out, call.bytes());
        } else if (p == call.root) {
          s.in.Add(out, call.bytes());
        }
      });
      break;
    case Kind::kBarrier:
    case Kind::kAllocate:
      break;
  }
  exchange.Loop(waiting);
}

void TcpTransport::Agree(const Call& call, std::chrono::nanoseconds& waiting) {
  control_.Check();
  Exchange(*this, call).Loop(waiting);
}

void TcpTransport::GatherBlocks(const Call& call, const std::vector<iovec>& blocks,
                                std::chrono::nanoseconds& waiting) {
  control_.Check();
  Exchange exchange(*this, call);
  const iovec& own = blocks[static_cast<std::size_t>(rank_)];
  exchange.ForPeers([&](int p, Stream& s) {
    const iovec& theirs = blocks[static_cast<std::size_t>(p)];
    s.out.Add(own.iov_base, own.iov_len);
    s.in.Add(theirs.iov_base, theirs.iov_len);
  });
  exchange.Loop(waiting);
}

std::unique_ptr<Buffer> TcpTransport::Allocate(const Call& call) {
  std::chrono::nanoseconds ignored{0};
  Agree(call, ignored);
  return AllocatePrivate(call.count);
}

}  // namespace ddp::rt::comm
