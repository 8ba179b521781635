#include "tests/integration/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "operator/base/result.h"

namespace ddp::integration {

bool Eventually(std::chrono::milliseconds deadline, const std::function<bool()>& done,
                std::chrono::milliseconds period) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(period);
  }
  return true;
}

Process::Process(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  DDP_CHECK(output >= 0, "cannot write " + log);
  pid_ = fork();
  DDP_CHECK(pid_ >= 0, "fork failed");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(127);
    }
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(output);
}

Process::~Process() {
  if (Running()) {
    Signal(SIGKILL);
    Wait(std::chrono::seconds(10));
  }
}

void Process::Signal(int signal) const {
  if (!code_) {
    kill(pid_, signal);
  }
}

std::optional<int> Process::Wait(std::chrono::milliseconds deadline) {
  Eventually(deadline, [this] { return !Running(); });
  return code_;
}

bool Process::Running() {
  int status = 0;
  if (!code_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return !code_;
}

std::string RunOrDie(const std::vector<std::string>& command, std::chrono::milliseconds deadline) {
  char path[] = "/tmp/ddp-run-XXXXXX";
  close(mkstemp(path));
  Process process(command, path);
  const auto code = process.Wait(deadline);
  std::string output = ReadFile(path);
  std::filesystem::remove(path);
  DDP_CHECK(code == 0, fmt::format("{}: {}", fmt::join(command, " "), output));
  return output;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace ddp::integration
