#include "runtime/comm/control.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ddp::rt::comm {
namespace {

constexpr std::size_t kMaxText = 2000;
enum class Type : std::uint32_t { kBye = 1, kAbort = 2 };

}  // namespace

// Of one size, so that a message is one send and one receive.
struct Control::Message {
  Type type = Type::kBye;
  std::int32_t rank = -1;
  std::int32_t code = 0;
  std::uint32_t size = 0;
  std::array<char, kMaxText> text{};
};

// What has come of a peer's next message.
struct Control::Inbox {
  Message message;
  std::size_t size = 0;
};

Control::Control(int rank, std::vector<Fd> sockets)
    : rank_(rank),
      sockets_(std::move(sockets)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      on_change_([] {}),
      peers_(sockets_.size(), Peer::kHere) {
  DDP_RT_CHECK(static_cast<bool>(stop_), ErrnoText(errno));
}

Control::~Control() { Stop(); }

void Control::Stop() {
  if (thread_.joinable()) {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
}

void Control::Start(std::function<void()> on_change) {
  on_change_ = std::move(on_change);
  thread_ = std::thread([this] { Watch(); });
}

Peer Control::peer(int rank) const {
  const std::scoped_lock lock(mutex_);
  return peers_[static_cast<std::size_t>(rank)];
}

std::optional<Failure> Control::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void Control::Check() const {
  if (const auto failed = failure()) {
    throw Error(failed->code, failed->message);
  }
}

bool Control::Record(Failure failure) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) {
      return false;
    }
    failure_ = std::move(failure);
  }
  changed_.notify_all();
  on_change_();
  return true;
}

void Control::Break(Failure failure) {
  Message message;
  message.type = Type::kAbort;
  message.rank = failure.rank;
  message.code = static_cast<std::int32_t>(failure.code);
  const std::string text = failure.message;
  if (Record(std::move(failure))) {
    Send(message, text);
  }
}

void Control::Fail(Failure failure) {
  Break(std::move(failure));
  Check();
  Die(__FILE__, __LINE__, "no failure after a failure");
}

void Control::BreakHere(const std::string& message) {
  Record({rank_, ExitCode::kUnavailable, message});
}

void Control::FailGone(int peer, const std::string& needed_for) {
  const auto index = static_cast<std::size_t>(peer);
  Peer state = Peer::kHere;
  {
    std::unique_lock lock(mutex_);
    constexpr std::chrono::seconds kFarewell(1);
    changed_.wait_for(lock, kFarewell, [&] { return failure_ || peers_[index] != Peer::kHere; });
    // It may have ended because another rank broke the group: that rank's word has a way of its
    // own.
    constexpr std::chrono::milliseconds kOthersWord(200);
    if (peers_[index] == Peer::kEnded) {
      changed_.wait_for(lock, kOthersWord, [&] { return failure_.has_value(); });
    }
    state = peers_[index];
  }
  Check();
  const char* how = state == Peer::kLeft ? "has finished and left"
                                         : "is gone: its process ended or its connection broke";
  Fail({peer, ExitCode::kUnavailable,
        fmt::format("rank {} {}; {} needs it", peer, how, needed_for)});
}

void Control::Bye() {
  Message message;
  message.rank = rank_;
  Send(message, "");
}

void Control::Send(const Message& message, const std::string& text) {
  Message whole = message;
  whole.size = static_cast<std::uint32_t>(std::min(text.size(), kMaxText));
  std::memcpy(whole.text.data(), text.data(), whole.size);
  const std::scoped_lock lock(send_mutex_);
  for (const Fd& socket : sockets_) {
    if (socket) {
      // Whoever cannot take it is gone, or will see this process's end.
      static_cast<void>(send(socket.get(), &whole, sizeof(whole), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
  }
}

void Control::Watch() {
  std::vector<pollfd> entries;
  for (const Fd& socket : sockets_) {
    entries.push_back({socket.get(), POLLIN, 0});  // the own one is -1: poll skips it
  }
  entries.push_back({stop_.get(), POLLIN, 0});
  std::vector<Inbox> inboxes(sockets_.size());
  for (;;) {
    const int rc = poll(entries.data(), entries.size(), -1);
    DDP_RT_CHECK(rc > 0 || errno == EINTR, ErrnoText(errno));
    if (entries.back().revents != 0) {
      return;
    }
    for (std::size_t peer = 0; rc > 0 && peer < sockets_.size(); ++peer) {
      if (entries[peer].revents != 0) {
        Receive(peer, inboxes[peer]);
        const std::scoped_lock lock(mutex_);
        if (peers_[peer] != Peer::kHere) {
          entries[peer].fd = -1;
        }
      }
    }
  }
}

void Control::Receive(std::size_t peer, Inbox& inbox) {
  const ssize_t n = recv(sockets_[peer].get(), reinterpret_cast<char*>(&inbox.message) + inbox.size,
                         sizeof(inbox.message) - inbox.size, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  inbox.size += n > 0 ? static_cast<std::size_t>(n) : 0;
  if (n > 0 && inbox.size < sizeof(inbox.message)) {
    return;
  }
  const Message& message = inbox.message;
  if (n > 0 && message.type == Type::kAbort && message.size <= kMaxText) {
    Record({message.rank, static_cast<ExitCode>(message.code),
            std::string(message.text.data(), message.size)});
    inbox.size = 0;
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    peers_[peer] = n > 0 && message.type == Type::kBye ? Peer::kLeft : Peer::kEnded;
  }
  changed_.notify_all();
  on_change_();
}

}  // namespace ddp::rt::comm
