#include "runtime/train/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include "runtime/base/log.h"

namespace ddp::rt::train {
namespace {

constexpr int kSignalExitBase = 128;  // as shells name a death by signal

}  // namespace

StopSignals::StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC);
  DDP_RT_CHECK(signals_ >= 0 && wake_ >= 0, "signalfd and eventfd");
  thread_ = std::thread([this] { Run(); });
}

StopSignals::~StopSignals() {
  stop_ = true;
  eventfd_write(wake_, 1);
  thread_.join();
  close(signals_);
  close(wake_);
}

void StopSignals::Arm(std::chrono::seconds grace) {
  grace_ = Clock::duration(grace).count();
  armed_ = true;
}

void StopSignals::EndWithin(std::chrono::seconds limit, int code) {
  end_code_ = code;
  const Clock::rep end_at = (Clock::now() + limit).time_since_epoch().count();
  const Clock::rep before = end_at_;  // of a signal's grace
  end_at_ = before == 0 ? end_at : std::min(before, end_at);
  eventfd_write(wake_, 1);
}

int StopSignals::MillisecondsLeft() const {
  const Clock::rep end_at = end_at_;
  if (end_at == 0) {
    return -1;
  }
  const auto left = Clock::time_point(Clock::duration(end_at)) - Clock::now();
  return static_cast<int>(
      std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

void StopSignals::Run() {
  while (Poll()) {
  }
}

bool StopSignals::Poll() {
  std::array<pollfd, 2> fds = {pollfd{signals_, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
  const int ready = poll(fds.data(), fds.size(), MillisecondsLeft());
  if (stop_) {
    return false;
  }
  if (ready == 0) {
    // Without a lock: whoever is stuck may hold the log's.
    LogLastWords("ending now code={}: leaving took longer than allowed", end_code_.load());
    _exit(end_code_);
  }
  if ((fds[1].revents & POLLIN) != 0) {
    eventfd_t count = 0;
    eventfd_read(wake_, &count);
  }
  if ((fds[0].revents & POLLIN) != 0) {
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      Received(static_cast<int>(info.ssi_signo));
    }
  }
  return true;
}

void StopSignals::Received(int signal) {
  const char* name = signal == SIGTERM ? "SIGTERM" : "SIGINT";
  if (!armed_ || requested_) {
    LogLastWords("received {}: ending now{}", name, requested_ ? "" : ", training has not begun");
    _exit(kSignalExitBase + signal);
  }
  Log(Level::kInfo, "received {}: all ranks will save a checkpoint and stop", name);
  end_code_ = kSignalExitBase + signal;
  end_at_ = (Clock::now() + Clock::duration(grace_)).time_since_epoch().count();
  requested_ = true;
}

}  // namespace ddp::rt::train
