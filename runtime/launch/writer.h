// Writes to a descriptor on a thread of its own, so that a terminal or a disk that blocks never
// holds up whoever watches over the ranks. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "runtime/base/net.h"

namespace ddp::rt::launch {

class AsyncWriter {
 public:
  // Does not own the descriptor: of the console.
  explicit AsyncWriter(int fd);
  // Owns it: of a file.
  explicit AsyncWriter(Fd fd);
  // Waits a moment for what is queued; what a blocked descriptor does not take by then is lost.
  ~AsyncWriter();
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  // Queues the text; written in one piece with nothing of another Write in between. After a failure
  // to write (a reader that has gone, a full disk) everything is dropped.
  void Write(std::string_view text);
  // So much is queued that the sender should wait.
  bool full() const;

 private:
  struct State;

  std::shared_ptr<State> state_;
};

}  // namespace ddp::rt::launch
