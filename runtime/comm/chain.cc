#include "runtime/comm/chain.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/comm/casts.h"
#include "runtime/comm/failures.h"
#include "runtime/comm/kernels.h"
#include "runtime/comm/socket_wait.h"

namespace ddp::rt::comm {
namespace {

// What is reduced and passed on at a time.
constexpr std::size_t kBlock = std::size_t{16} << 10;  // elements
// How far the sums may be ahead of what the next host has taken: beyond, links have enough to do.
constexpr std::size_t kAhead = std::size_t{1} << 20;

bool Is16Bit(DataType type) { return type == DataType::kBF16 || type == DataType::kF16; }

}  // namespace

// One reduction: counters of bytes on the four directions, and the loop that advances them.
class Chain::Pass {
 public:
  Pass(Chain& chain, const Call& call, const Deadline& deadline, std::chrono::milliseconds moment,
       const std::vector<char*>& arrays, std::size_t own, std::size_t count)
      : chain_(chain),
        call_(call),
        deadline_(deadline),
        until_(Deadline::In(deadline.Left() + moment, "")),
        arrays_(arrays),
        own_(arrays[own]),
        size_(SizeOf(call.type)),
        sum_type_(Is16Bit(call.type) ? DataType::kF32 : call.type),
        sum_size_(SizeOf(sum_type_)),
        sums_total_(count * sum_size_),
        total_(count * size_),
        first_(chain.before_.fd < 0),
        last_(chain.after_.fd < 0) {
    if (chain_.sums_.size() < sums_total_) {
      chain_.sums_ = std::vector<char>(sums_total_);
    }
    sums_in_ = first_ ? sums_total_ : 0;
    sums_out_ = last_ ? sums_total_ : 0;
    results_out_ = first_ ? total_ : 0;
  }

  void Run() {
    char* const sums = chain_.sums_.data();
    while (sums_out_ < sums_total_ || spread_ < total_ || results_out_ < total_) {
      bool moved = Receive(chain_.before_, sums, sums_in_, sums_total_);
      moved |= ReduceBlock();
      moved |= Send(chain_.after_, sums, sums_out_, last_ ? sums_total_ : reduced_);
      moved |= Receive(chain_.after_, own_, results_in_, last_ ? 0 : total_);
      moved |= Spread();
      moved |= Send(chain_.before_, own_, results_out_, first_ ? total_ : spread_);
      if (moved) {
        last_words_.Reset();
      } else {
        Wait();
      }
    }
  }

 private:
  // A bound on one system call keeps all four directions moving.
  static constexpr std::size_t kMostAtOnce = std::size_t{512} << 10;

  bool Receive(const Link& from, char* to, std::size_t& done, std::size_t total) {
    if (done >= total) {
      return false;
    }
    const ssize_t n = recv(from.fd, to + done, std::min(total - done, kMostAtOnce), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      return false;
    }
    if (n <= 0) {
      chain_.control_.FailGone(from.rank, ShortName(call_));
    }
    done += static_cast<std::size_t>(n);
    return true;
  }

  bool Send(const Link& to, const char* from, std::size_t& done, std::size_t available) {
    if (done >= available) {
      return false;
    }
    const ssize_t n = send(to.fd, from + done, std::min(available - done, kMostAtOnce),
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      return false;
    }
    if (n < 0) {
      chain_.control_.FailGone(to.rank, ShortName(call_));
    }
    done += static_cast<std::size_t>(n);
    return true;
  }

  // Adds this host's ranks to one block of the sums that have come.
  bool ReduceBlock() {
    const std::size_t begin = reduced_ / sum_size_;
    const std::size_t n = std::min(kBlock, sums_total_ / sum_size_ - begin);
    if (n == 0 || sums_in_ < reduced_ + n * sum_size_ ||
        (!last_ && reduced_ > sums_out_ + kAhead)) {
      return false;
    }
    char* const sums = chain_.sums_.data() + reduced_;
    std::vector<const void*> inputs;
    if (!first_) {
      inputs.push_back(sums);
    }
    if (Is16Bit(call_.type)) {
      chain_.wide_.resize(kBlock * arrays_.size());
    }
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const char* const values = arrays_[i] + begin * size_;
      if (Is16Bit(call_.type)) {
        float* const wide = chain_.wide_.data() + i * kBlock;
        Widen(call_.type, values, wide, n);
        inputs.push_back(wide);
      } else {
        inputs.push_back(values);
      }
    }
    const ReduceOp op = call_.op == ReduceOp::kMax ? ReduceOp::kMax : ReduceOp::kSum;
    comm::Reduce(sum_type_, op, inputs.data(), static_cast<int>(inputs.size()), sums, n);
    if (last_) {
      Finish(sums, begin, n);
    }
    reduced_ += n * sum_size_;
    return true;
  }

  void Finish(char* sums, std::size_t begin, std::size_t n) {
    if (call_.op == ReduceOp::kMean) {
      DivideSum(sum_type_, sums, chain_.world_size_, n);
    }
    char* const to = own_ + begin * size_;
    if (Is16Bit(call_.type)) {
      Narrow(call_.type, reinterpret_cast<const float*>(sums), to, n);
    } else {
      std::memcpy(to, sums, n * size_);
    }
    results_in_ += n * size_;
  }

  // Copies results to the other ranks of this host.
  bool Spread() {
    if (results_in_ == spread_) {
      return false;
    }
    for (char* const array : arrays_) {
      if (array != own_) {
        std::memcpy(array + spread_, own_ + spread_, results_in_ - spread_);
      }
    }
    spread_ = results_in_;
    return true;
  }

  void Wait() {
    Control& control = chain_.control_;
    control.Check();
    const bool want_before_in = sums_in_ < sums_total_;
    const bool want_before_out = results_out_ < (first_ ? 0 : spread_);
    const bool want_after_in = !last_ && results_in_ < total_;
    const bool want_after_out = sums_out_ < (last_ ? 0 : reduced_);
    std::array<pollfd, 3> entries = {
        Entry(chain_.before_, want_before_in, want_before_out),
        Entry(chain_.after_, want_after_in, want_after_out),
        pollfd{chain_.interrupt_, POLLIN, 0},
    };
    Deadline::Milliseconds left = until_.Left();
    for (const Link& link : {chain_.before_, chain_.after_}) {
      if (link.fd >= 0 && control.peer(link.rank) != Peer::kHere) {
        left = std::min(left, last_words_.Left(control, link.rank, call_));
      }
    }
    if (PollOrInterrupt(entries, left, control) == 0 && until_.Expired()) {
      const Link& late = want_before_in ? chain_.before_ : chain_.after_;
      control.Fail(DeadlineFailure(chain_.rank_, ShortName(call_), deadline_, {late.rank}));
    }
  }

  static pollfd Entry(const Link& link, bool in, bool out) {
    // A peer of which nothing is wanted is left out (-1): its hang-up would end every poll.
    return {in || out ? link.fd : -1, static_cast<short>((in ? POLLIN : 0) | (out ? POLLOUT : 0)),
            0};
  }

  Chain& chain_;
  const Call& call_;
  const Deadline& deadline_;
  const Deadline until_;
  const std::vector<char*>& arrays_;
  char* const own_;
  const std::size_t size_;
  const DataType sum_type_;
  const std::size_t sum_size_;
  const std::size_t sums_total_;
  const std::size_t total_;
  const bool first_;
  const bool last_;
  // Bytes so far.
  std::size_t sums_in_ = 0;
  std::size_t reduced_ = 0;
  std::size_t sums_out_ = 0;
  std::size_t results_in_ = 0;
  std::size_t spread_ = 0;
  std::size_t results_out_ = 0;
  LastWords last_words_;
};

Chain::Chain(int rank, int world_size, Link before, Link after, int interrupt, Control& control)
    : rank_(rank),
      world_size_(world_size),
      before_(before),
      after_(after),
      interrupt_(interrupt),
      control_(control) {}

void Chain::Reduce(const Call& call, const Deadline& deadline, std::chrono::milliseconds moment,
                   const std::vector<char*>& arrays, std::size_t own, std::size_t count) {
  Pass(*this, call, deadline, moment, arrays, own, count).Run();
}

}  // namespace ddp::rt::comm
