#include "runtime/health/watchdog.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "runtime/base/log.h"

namespace ddp::rt::health {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFrames = 64;
constexpr std::chrono::seconds kAnswer(1);
// How often to look at least, and at most.
constexpr std::chrono::milliseconds kRarely(1000);
constexpr std::chrono::milliseconds kOften(10);

// What the signal handler of the asked thread fills.
std::array<void*, kFrames> frames;
std::atomic<int> frame_count = -1;

void TakeStack(int /*signal*/) {
  const int count = backtrace(frames.data(), kFrames);
  frame_count.store(count, std::memory_order_release);
}

int StackSignal() { return SIGRTMIN + 4; }

std::string NameOf(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) {
    return fmt::format("{}", address);
  }
  const std::string_view file = info.dli_fname != nullptr ? info.dli_fname : "?";
  const std::string_view base = file.substr(file.rfind('/') + 1);
  if (info.dli_sname == nullptr) {
    const auto offset = static_cast<char*>(address) - static_cast<char*>(info.dli_fbase);
    return fmt::format("{}+{:#x}", base, offset);
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  return fmt::format("{} ({})", status == 0 ? readable.get() : info.dli_sname, base);
}

}  // namespace

std::string StackOf(pthread_t thread) {
  void* loads_libgcc = nullptr;  // its first use allocates: not in the handler
  backtrace(&loads_libgcc, 1);
  struct sigaction action {};
  action.sa_handler = &TakeStack;
  action.sa_flags = SA_RESTART;
  sigaction(StackSignal(), &action, nullptr);
  frame_count = -1;
  if (pthread_kill(thread, StackSignal()) != 0) {
    return "  (the thread has ended)\n";
  }
  const auto end = Clock::now() + kAnswer;
  while (frame_count.load(std::memory_order_acquire) < 0) {
    if (Clock::now() > end) {
      return "  (the thread doesn't answer: it is stopped, or within the kernel)\n";
    }
    std::this_thread::yield();
  }
  std::string text;
  // The first two are the handler and what called it.
  for (int i = 2; i < frame_count; ++i) {
    text += fmt::format("  #{} {}\n", i - 2, NameOf(frames[static_cast<size_t>(i)]));
  }
  return text;
}

std::chrono::milliseconds Watchdog::StuckAfter(std::chrono::milliseconds limit) {
  return limit + limit / 4 + std::chrono::seconds(1);
}

Watchdog::Watchdog(const train::Board& board, const PhaseLimits& limits,
                   std::function<void(const std::string&)> expired)
    : board_(board),
      limits_(limits),
      expired_(std::move(expired)),
      watched_(pthread_self()),
      thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

std::chrono::milliseconds Watchdog::LimitOf(train::Phase phase) const {
  switch (phase) {
    case train::Phase::kTraining:
      return limits_.step;
    case train::Phase::kEvaluating:
      return limits_.evaluation;
    case train::Phase::kSaving:
    case train::Phase::kStopping:
      return limits_.checkpoint;
    case train::Phase::kStarting:
      break;
  }
  return std::chrono::hours(24 * 365);
}

void Watchdog::Run() {
  train::Phase phase = board_.phase;
  int64_t step = board_.step;
  auto since = Clock::now();
  const auto shortest = std::min({limits_.step, limits_.evaluation, limits_.checkpoint});
  const auto interval = std::clamp(shortest / 8, kOften, kRarely);
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, interval, [this] { return stop_; })) {
    if (board_.phase != phase || board_.step != step) {
      phase = board_.phase;
      step = board_.step;
      since = Clock::now();
      continue;
    }
    const auto stuck = std::chrono::duration<double>(Clock::now() - since);
    if (stuck < LimitOf(phase)) {
      continue;
    }
    lock.unlock();
    const std::string what =
        fmt::format("stuck for {:.1f} s after step {}, {}", stuck.count(), step, PhaseName(phase));
    // The thread may hold the log's lock, or a group's: nothing before the call of `expired_` may
    // wait for it, and what comes afterwards may be cut off.
    LogLastWords(what);
    expired_(what);
    Log(Level::kError, "the training thread is in\n{}", StackOf(watched_));
    return;
  }
}

}  // namespace ddp::rt::health
