#include "runtime/checkpoint/saver.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace ddp::rt::checkpoint {
namespace {

size_t BytesOf(const Contents& contents) {
  size_t bytes = 0;
  for (const auto* tensors : {&contents.model, &contents.optimizer}) {
    for (const TensorView& tensor : *tensors) {
      bytes += tensor.elements.size();
    }
  }
  return bytes;
}

// Ranks and this thread share the processors: who computes goes first, at the processor and at the
// disk. On a kernel that refuses it is as quick as any other.
void GiveWay() {
  constexpr int kNice = 19;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  constexpr int kWhoProcess = 1;                // IOPRIO_WHO_PROCESS: a thread
  constexpr int kBestEffortLast = 2 << 13 | 7;  // class best effort, the lowest of its levels
  syscall(SYS_ioprio_set, kWhoProcess, 0, kBestEffortLast);
}

}  // namespace

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

void Saver::Reserve(const Contents& contents) {
  Wait();
  reserve_ = BytesOf(contents);
  Begin(false);
}

void Saver::Start(const Contents& contents) {
  Wait();
  const std::exception_ptr failure = std::exchange(failure_, nullptr);
  if (failure && options_.failures_end_the_run) {
    std::rethrow_exception(failure);
  }
  Copy(contents);
  Begin(true);
}

void Saver::Finish() {
  Wait();
  if (!failure_) {
    return;
  }
  if (options_.shards != nullptr) {  // the others have saved their parts and are done
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  Log(Level::kWarning, "trying once more to save the checkpoint of step={}", copy_.position.step);
  failure_ = nullptr;
  Begin(true);
  Wait();
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void Saver::Begin(bool save) {
  {
    const std::lock_guard lock(mutex_);
    busy_ = true;
    begun_ = std::chrono::steady_clock::now();
    save_ = save;
  }
  changed_.notify_all();
}

void Saver::Wait() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, options_.timeout, [this] { return !busy_; })) {
    throw TooLate();
  }
}

bool Saver::BusyAfter(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, time, [this] { return !busy_; })) {
    return false;
  }
  if (std::chrono::steady_clock::now() - begun_ > options_.timeout) {
    throw TooLate();
  }
  return true;
}

Error Saver::TooLate() const {
  return {ExitCode::kSoftware,
          fmt::format("saving a checkpoint to {} has not ended after {} s: is its storage "
                      "reachable?",
                      folder_.path().string(), options_.timeout.count() / 1000)};
}

void Saver::Copy(const Contents& contents) {
  memory_.Reserve(BytesOf(contents));
  copy_ = contents;
  std::byte* next = memory_.bytes().data();
  for (auto* tensors : {&copy_.model, &copy_.optimizer}) {
    for (TensorView& tensor : *tensors) {
      const size_t size = tensor.elements.size();
      if (size > 0) {
        std::memcpy(next, tensor.elements.data(), size);
      }
      tensor.elements = {next, size};
      next += size;
    }
  }
}

void Saver::SaveOnce() {
  const auto start = std::chrono::steady_clock::now();
  const auto path = folder_.Save(copy_, options_.shards);
  const bool committed = options_.shards == nullptr || options_.shards->rank() == 0;
  if (options_.saved && committed) {
    options_.saved(path, copy_.position, std::chrono::steady_clock::now() - start);
  }
}

void Saver::Run() {
  GiveWay();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || stop_; });
    if (!busy_) {
      return;
    }
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (save_) {
        SaveOnce();
      } else {
        memory_.Reserve(reserve_);
      }
    } catch (const std::exception& e) {
      failure = std::current_exception();
      if (options_.failed) {
        options_.failed(e.what());
      }
    }
    lock.lock();
    if (save_) {
      failure_ = failure;
    }
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ddp::rt::checkpoint
