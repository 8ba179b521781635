#include "runtime/launch/writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace ddp::rt::launch {
namespace {

constexpr size_t kFull = 1 << 20;
constexpr std::chrono::seconds kFlush(2);

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      // Somebody else has made the console non-blocking.
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

// Kept alive by the thread too: it may still hang in a write when the writer goes.
struct AsyncWriter::State {
  int fd = -1;
  Fd owned;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string queue;
  bool closing = false;
  bool broken = false;
  bool ended = false;

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return closing || !queue.empty(); });
      if (queue.empty() || broken) {
        break;
      }
      const std::string text = std::exchange(queue, {});
      lock.unlock();
      const bool written = WriteAll(fd, text);
      lock.lock();
      broken = !written;
    }
    ended = true;
    changed.notify_all();
  }
};

AsyncWriter::AsyncWriter(int fd) : state_(std::make_shared<State>()) {
  state_->fd = fd;
  std::thread([state = state_] { state->Run(); }).detach();
}

AsyncWriter::AsyncWriter(Fd fd) : state_(std::make_shared<State>()) {
  state_->fd = fd.get();
  state_->owned = std::move(fd);
  std::thread([state = state_] { state->Run(); }).detach();
}

AsyncWriter::~AsyncWriter() {
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kFlush, [this] { return state_->ended; });
}

void AsyncWriter::Write(std::string_view text) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->broken) {
    state_->queue.append(text);
    state_->changed.notify_all();
  }
}

bool AsyncWriter::full() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.size() >= kFull;
}

}  // namespace ddp::rt::launch
