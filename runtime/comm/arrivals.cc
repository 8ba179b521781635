#include "runtime/comm/arrivals.h"

#include <sys/socket.h>

#include "runtime/comm/failures.h"

namespace ddp::rt::comm {

Arrivals::Arrivals(int rank, std::vector<Fd> sockets, Control& control)
    : rank_(rank), sockets_(std::move(sockets)), control_(control), peers_(sockets_.size()) {}

void Arrivals::Announce(const Call& call) {
  ours_ = SignatureOf(call);
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    peers_[p] = Peer();
    Send(p);
  }
}

bool Arrivals::Complete() {
  bool complete = true;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (!sockets_[p]) {
      continue;
    }
    Send(p);
    Receive(p);
    complete &= peers_[p].sent == sizeof(Signature) && peers_[p].received == sizeof(Signature);
  }
  return complete;
}

// A peer whose end broke is found by Control: here it just does not arrive.
void Arrivals::Send(std::size_t peer) {
  std::size_t& sent = peers_[peer].sent;
  if (sockets_[peer] && sent < sizeof(ours_)) {
    const ssize_t n = send(sockets_[peer].get(), reinterpret_cast<const char*>(&ours_) + sent,
                           sizeof(ours_) - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    sent += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
}

void Arrivals::Receive(std::size_t peer) {
  Peer& from = peers_[peer];
  if (from.received == sizeof(from.theirs)) {
    return;
  }
  const ssize_t n =
      recv(sockets_[peer].get(), reinterpret_cast<char*>(&from.theirs) + from.received,
           sizeof(from.theirs) - from.received, MSG_DONTWAIT);
  from.received += n > 0 ? static_cast<std::size_t>(n) : 0;
  if (from.received == sizeof(from.theirs)) {
    CheckSignature(control_, rank_, ours_, static_cast<int>(peer), from.theirs);
  }
}

std::vector<int> Arrivals::Missing() const {
  std::vector<int> missing;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (sockets_[p] && peers_[p].received < sizeof(Signature)) {
      missing.push_back(static_cast<int>(p));
    }
  }
  return missing;
}

}  // namespace ddp::rt::comm
