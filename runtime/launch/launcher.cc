#include "runtime/launch/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/launch/group.h"
#include "runtime/launch/guard.h"
#include "runtime/launch/memory.h"

namespace ddp::rt::launch {
namespace {

using Clock = std::chrono::steady_clock;

// A start that has run so long begins the budget of restarts anew, as the operator has it.
constexpr std::chrono::minutes kBudgetRenewed(10);
constexpr std::chrono::seconds kFirstPause(1);
constexpr std::chrono::seconds kLongestPause(30);

class Launcher {
 public:
  Launcher(const Options& options, const Fd& guard)
      : options_(options),
        guard_(guard),
        signals_(MakeSignals()),
        console_(options.world_size() > 1) {}

  int Run();

 private:
  static Fd MakeSignals() {
    const sigset_t set = BlockSignals();
    Fd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    DDP_RT_CHECK(fd, "signalfd");
    return fd;
  }
  Group::Outcome RunOnce(int restart);
  void Tell(const Group::Outcome& outcome, int code);
  // Until the next start; false if told to stop meanwhile.
  bool Pause(std::chrono::seconds pause);
  std::string Folder(int restart) const;

  const Options& options_;
  const Fd& guard_;
  Fd signals_;
  Console console_;
  OomWatch memory_;
};

std::string Launcher::Folder(int restart) const {
  if (options_.log_dir.empty()) {
    return "";
  }
  const std::string run = options_.run_id.empty() ? "none" : options_.run_id;
  return (std::filesystem::path(options_.log_dir) / run / fmt::format("attempt_{}", restart))
      .string();
}

Group::Outcome Launcher::RunOnce(int restart) {
  // Kept until all ranks have ended: nobody else gets the port meanwhile.
  Fd reserved;
  Meeting meeting{
      .address = options_.master_addr, .port = options_.master_port, .restart = restart};
  if (meeting.port == 0) {
    reserved = ReservePort();
    meeting.port = BoundPort(reserved);
  }
  const std::string folder = Folder(restart);
  console_.Say(Level::kInfo,
               fmt::format("starting {} rank(s) of {} program={} meeting={} restart={}/{}{}",
                           options_.processes, options_.world_size(), options_.command.front(),
                           HostPort(meeting.address, meeting.port), restart, options_.max_restarts,
                           folder.empty() ? "" : " logs=" + folder));
  Group group(options_, meeting, folder,
              {.signals = signals_, .guard = guard_, .console = console_});
  return group.Run();
}

void Launcher::Tell(const Group::Outcome& outcome, int code) {
  if (const auto first = FirstFailure(outcome.ended)) {
    const int status = outcome.ended[*first].status;
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    for (const std::string& line :
         Report(outcome.ended, *first, killed ? memory_.Hint() : std::string())) {
      console_.Say(Level::kError, line);
    }
  } else if (code != 0) {
    console_.Say(Level::kInfo, fmt::format("stopped on request, exit code {}", code));
  }
}

bool Launcher::Pause(std::chrono::seconds pause) {
  const auto end = Clock::now() + pause;
  while (Clock::now() < end) {
    pollfd fds[] = {{signals_.get(), POLLIN, 0}, {guard_.get(), POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    poll(fds, 2, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (fds[1].revents != 0) {
      return false;
    }
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (std::find(std::begin(kStopSignals), std::end(kStopSignals), signal) !=
          std::end(kStopSignals)) {
        return false;
      }
    }
  }
  return true;
}

int Launcher::Run() {
  int used = 0;  // restarts since the budget began
  std::chrono::seconds pause(0);
  for (int restart = 0;; ++restart) {
    const auto start = Clock::now();
    const Group::Outcome outcome = RunOnce(restart);
    if (outcome.abandoned) {
      return 128 + SIGKILL;
    }
    const int code = ExitCodeOf(outcome.ended);
    Tell(outcome, code);
    if (Clock::now() - start >= kBudgetRenewed) {
      used = 0;
      pause = std::chrono::seconds(0);
    }
    if (outcome.stopped || !WorthRestarting(code) || used >= options_.max_restarts) {
      if (!outcome.stopped && WorthRestarting(code) && options_.max_restarts > 0) {
        console_.Say(Level::kError, fmt::format("giving up after {} restart(s): --max-restarts is "
                                                "{}",
                                                restart, options_.max_restarts));
      }
      return code;
    }
    ++used;
    console_.Say(Level::kWarning, fmt::format("starting all ranks again in {} s, restart {} of {}",
                                              pause.count(), used, options_.max_restarts));
    if (!Pause(pause)) {
      return code;
    }
    pause = std::clamp(pause * 2, kFirstPause, kLongestPause);
  }
}

}  // namespace

int Launch(const Options& options) {
  return RunGuarded([&](const Fd& guard) { return Launcher(options, guard).Run(); });
}

}  // namespace ddp::rt::launch
