// How the ranks of a group know of each other's end. One socket to every other rank carries nothing
// but two rare messages: "I am done" (bye) and "the group is broken, and this rank was first"
// (abort). A socket that ends without a bye is a peer that died. One thread watches them all.
//
// A peer's end alone fails nothing: what it has sent may be all that is needed. The transport fails
// the group when it needs something from a rank that is gone. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/net.h"

namespace ddp::rt::comm {

// Why a group is broken, the same on all ranks.
struct Failure {
  int rank = -1;  // that went first
  ExitCode code = ExitCode::kUnavailable;
  std::string message;
};

enum class Peer { kHere, kLeft /* said bye */, kEnded /* without */ };

class Control {
 public:
  // sockets[r] leads to rank r; the own one is empty. `on_change` is called from the watching
  // thread, or from one that calls Fail, after any change: it wakes whoever waits in the transport.
  Control(int rank, std::vector<Fd> sockets);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  void Start(std::function<void()> on_change);
  // Ends the watching; on_change is not called from its thread any more.
  void Stop();

  Peer peer(int rank) const;
  std::optional<Failure> failure() const;
  // Throws the failure, if there is one.
  void Check() const;
  // Records the failure unless there is an earlier one, tells the others, and throws the one that
  // counts.
  [[noreturn]] void Fail(Failure failure);
  // The same without the throw.
  void Break(Failure failure);
  // Breaks this rank's side only: what the others see is a peer that ended.
  void BreakHere(const std::string& message);
  // Fails because rank `peer` is gone while `needed_for` needs it. Gives its farewell, which
  // travels on another socket than the data, a moment to arrive, so that the rank that really went
  // first is named.
  [[noreturn]] void FailGone(int peer, const std::string& needed_for);

  void Bye();

 private:
  struct Message;
  struct Inbox;
  void Watch();
  void Receive(std::size_t peer, Inbox& inbox);
  void Send(const Message& message, const std::string& text);
  bool Record(Failure failure);

  const int rank_;
  const std::vector<Fd> sockets_;
  Fd stop_;
  std::function<void()> on_change_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::optional<Failure> failure_;
  std::mutex send_mutex_;
  std::thread thread_;
};

}  // namespace ddp::rt::comm
