#include "operator/ddpjob/local/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "operator/ddpjob/local/process_tree.h"

namespace ddp::job {
namespace {

constexpr int kCannotStart = 127;  // as shells do
constexpr int kLifelineLost = 137;

[[noreturn]] void RunProgram(char** command, pid_t supervisor) {
  // Should the supervisor be killed, the program goes with it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) {
    _exit(kLifelineLost);
  }
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(command[0], command);
  dprintf(STDERR_FILENO, "can't start %s: %s\n", command[0], std::strerror(errno));
  _exit(kCannotStart);
}

// Reaps what has ended; true once `program` is among it, with its exit code.
bool Reap(pid_t program, int& code) {
  bool ended = false;
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid == program) {
      code = ExitCodeOf(status);
      ended = true;
    }
  }
  return ended;
}

// Handles what arrived on the signal descriptor; true when the rank is over.
bool HandleSignals(int signals, pid_t program, int& code) {
  signalfd_siginfo info{};
  while (read(signals, &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGTERM) {
      kill(program, SIGTERM);
    } else if (info.ssi_signo == SIGUSR1) {
      kill(program, SIGKILL);
    } else if (Reap(program, code)) {
      return true;
    }
  }
  return false;
}

}  // namespace

int Supervise(char** command) {
  fcntl(kLifelineFd, F_SETFD, FD_CLOEXEC);
  fcntl(kLockFd, F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGUSR1, SIGINT, SIGHUP, SIGQUIT}) {
    sigaddset(&set, signal);
  }
  sigprocmask(SIG_SETMASK, &set, nullptr);
  const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  const pid_t self = getpid();
  const pid_t program = fork();
  if (program == 0) {
    RunProgram(command, self);
  }
  if (program < 0 || signals < 0) {
    dprintf(STDERR_FILENO, "can't start %s: %s\n", command[0], std::strerror(errno));
    KillAllDescendants();
    return kCannotStart;
  }
  int code = kLifelineLost;
  std::array<pollfd, 2> waits = {pollfd{signals, POLLIN, 0}, pollfd{kLifelineFd, POLLIN, 0}};
  while (true) {
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
      break;
    }
    // Nothing is ever written to the lifeline: an event is its end.
    if (waits[1].revents != 0 || HandleSignals(signals, program, code)) {
      break;
    }
  }
  KillAllDescendants();
  return code;
}

}  // namespace ddp::job
