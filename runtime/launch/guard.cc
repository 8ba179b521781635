#include "runtime/launch/guard.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/launch/blame.h"
#include "runtime/launch/process.h"

namespace ddp::rt::launch {
namespace {

// Reaps what has ended; the status of the worker process once it has.
bool Reap(pid_t worker, int& status) {
  bool ended = false;
  int one = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &one, WNOHANG)) > 0;) {
    if (pid == worker) {
      status = one;
      ended = true;
    }
  }
  return ended;
}

}  // namespace

sigset_t BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) {
      sigaddset(&set, signal);
    }
  }
  for (const int signal : kPassedSignals) {
    sigaddset(&set, signal);
  }
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return set;
}

int RunGuarded(const std::function<int(const Fd& guard)>& work) {
  const sigset_t signals = BlockSignals();
  AdoptOrphans();
  const Fd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  DDP_RT_CHECK(self, ErrnoText(errno));
  const pid_t worker = fork();
  if (worker < 0) {
    throw Error(ExitCode::kSoftware, fmt::format("can't start a process: {}", ErrnoText(errno)));
  }
  if (worker == 0) {
    // Ctrl-C reaches this process once: through the first.
    setpgid(0, 0);
    AdoptOrphans();
    return work(self);
  }
  int status = 0;
  while (!Reap(worker, status)) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGCHLD) {
      kill(worker, signal);
    }
  }
  if (WIFSIGNALED(status)) {
    Log(Level::kError, "the launcher's own process was ended by {}: ending all ranks",
        DescribeEnd(status));
  }
  KillAllChildren();
  return ExitCodeOf(status);
}

}  // namespace ddp::rt::launch
