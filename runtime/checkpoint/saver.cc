#include "runtime/checkpoint/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"

namespace ddp::rt::checkpoint {

Saver::Saver(CheckpointFolder& folder, SaverOptions options)
    : folder_(folder), options_(std::move(options)), thread_([this] { Run(); }) {}

Saver::~Saver() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Saver::Start(const Contents& contents) {
  Finish();
  Copy(contents);
  {
    const std::lock_guard lock(mutex_);
    busy_ = true;
  }
  changed_.notify_all();
}

void Saver::Finish() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, options_.timeout, [this] { return !busy_; })) {
    throw Error(ExitCode::kSoftware,
                fmt::format("saving a checkpoint to {} has not ended after {} s: is its storage "
                            "reachable?",
                            folder_.path().string(), options_.timeout.count() / 1000));
  }
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void Saver::Copy(const Contents& contents) {
  size_t bytes = 0;
  for (const auto* tensors : {&contents.model, &contents.optimizer}) {
    for (const TensorView& tensor : *tensors) {
      bytes += tensor.elements.size();
    }
  }
  memory_.resize(bytes);
  copy_ = contents;
  auto next = memory_.begin();
  for (auto* tensors : {&copy_.model, &copy_.optimizer}) {
    for (TensorView& tensor : *tensors) {
      const auto end = std::copy(tensor.elements.begin(), tensor.elements.end(), next);
      tensor.elements = std::span(next, end);
      next = end;
    }
  }
}

void Saver::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || stop_; });
    if (!busy_) {
      return;
    }
    lock.unlock();
    std::exception_ptr failure;
    try {
      const auto start = std::chrono::steady_clock::now();
      const auto path = folder_.Save(copy_);
      if (options_.saved) {
        options_.saved(path, copy_.position, std::chrono::steady_clock::now() - start);
      }
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ddp::rt::checkpoint
