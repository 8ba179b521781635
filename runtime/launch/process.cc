#include "runtime/launch/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>
#include <utility>

#include "runtime/base/error.h"

namespace ddp::rt::launch {
namespace {

struct Pipe {
  Fd read;
  Fd write;
};

Pipe MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    throw Error(ExitCode::kSoftware, fmt::format("can't make a pipe: {}", ErrnoText(errno)));
  }
  return {Fd(fds[0]), Fd(fds[1])};
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));  // exec's prototype; it does not write
  }
  pointers.push_back(nullptr);
  return pointers;
}

struct Child {
  char* const* command;
  char* const* environment;
  pid_t parent;
  int out;
  int err;
  int failure;  // where errno goes if the program can't be run
};

// Between fork and exec: only async-signal-safe calls.
[[noreturn]] void Become(const Child& child) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.parent) {  // it has ended before the line above
    _exit(128 + SIGKILL);
  }
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(child.out, STDOUT_FILENO);
  dup2(child.err, STDERR_FILENO);
  std::signal(SIGPIPE, SIG_DFL);  // the one that main() has changed
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(child.command[0], child.command, child.environment);
  const int error = errno;
  (void)!write(child.failure, &error, sizeof(error));
  _exit(127);
}

std::vector<pid_t> Children() {
  const std::string path = fmt::format("/proc/self/task/{}/children", getpid());
  std::ifstream file(path);
  std::vector<pid_t> children;
  for (pid_t pid = 0; file >> pid;) {
    children.push_back(pid);
  }
  return children;
}

}  // namespace

Process Start(const std::vector<std::string>& command,
              const std::vector<std::string>& environment) {
  const auto argv = Pointers(command);
  const auto envp = Pointers(environment);
  Pipe out = MakePipe();
  Pipe err = MakePipe();
  Pipe failure = MakePipe();
  const Child child{.command = argv.data(),
                    .environment = envp.data(),
                    .parent = getpid(),
                    .out = out.write.get(),
                    .err = err.write.get(),
                    .failure = failure.write.get()};
  const pid_t pid = fork();
  if (pid < 0) {
    throw Error(ExitCode::kSoftware, fmt::format("can't start a process: {}", ErrnoText(errno)));
  }
  if (pid == 0) {
    Become(child);
  }
  setpgid(pid, pid);  // whoever comes first
  failure.write.Reset();
  int error = 0;
  if (read(failure.read.get(), &error, sizeof(error)) == sizeof(error)) {
    waitpid(pid, nullptr, 0);
    throw Error(ExitCode::kConfig, fmt::format("can't run {}: {}; give the path of a program, or "
                                               "the name of one in PATH",
                                               command.front(), ErrnoText(error)));
  }
  Process process;
  process.pid = pid;
  process.alive = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  DDP_RT_CHECK(process.alive, ErrnoText(errno));
  fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
  fcntl(err.read.get(), F_SETFL, O_NONBLOCK);
  process.out = std::move(out.read);
  process.err = std::move(err.read);
  return process;
}

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void KillAllChildren() {
  // A process in uninterruptible sleep ends only when the kernel lets it: not waited for.
  constexpr std::chrono::seconds kPatience(2);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    for (const pid_t pid : Children()) {
      kill(pid, SIGKILL);
    }
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Fd ReservePort() {
  const int on = 1;
  const int off = 0;
  // Bound, but not listening: the kernel gives the port to nobody who asks for any, and to the
  // first who asks for this one, if both allow reuse, as every store does.
  Fd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 both{};
  both.sin6_family = AF_INET6;
  both.sin6_addr = in6addr_any;
  if (fd && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&both), sizeof(both)) == 0) {
    return fd;
  }
  fd = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (!fd || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0) {
    throw Error(ExitCode::kSoftware, fmt::format("there is no free port: {}", ErrnoText(errno)));
  }
  return fd;
}

}  // namespace ddp::rt::launch
