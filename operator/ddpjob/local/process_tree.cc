#include "operator/ddpjob/local/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string>

namespace ddp::job {
namespace {

// The parent's number in /proc/PID/stat: "PID (any text) STATE PPID …"; 0 when it is gone.
pid_t ParentOf(const char* pid) {
  const std::string path = std::string("/proc/") + pid + "/stat";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return 0;
  }
  std::array<char, 512> text{};
  const ssize_t size = read(fd, text.data(), text.size() - 1);
  close(fd);
  const char* name_end = size > 0 ? std::strrchr(text.data(), ')') : nullptr;
  if (name_end == nullptr || name_end + 4 >= text.data() + size) {
    return 0;
  }
  pid_t parent = 0;
  std::from_chars(name_end + 4, text.data() + size, parent);
  return parent;
}

}  // namespace

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) {
    return children;
  }
  while (const dirent* entry = readdir(folder)) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto [stop, error] = std::from_chars(entry->d_name, end, pid);
    if (error == std::errc() && stop == end && ParentOf(entry->d_name) == parent) {
      children.push_back(pid);
    }
  }
  closedir(folder);
  return children;
}

void KillAllDescendants() {
  while (true) {
    for (const pid_t child : ChildrenOf(getpid())) {
      kill(child, SIGKILL);
    }
    int status = 0;
    // One is waited for; others that ended meanwhile are reaped too before the next look.
    pid_t reaped = waitpid(-1, &status, 0);
    while (reaped > 0) {
      reaped = waitpid(-1, &status, WNOHANG);
    }
    if (reaped < 0 && errno == ECHILD) {
      return;
    }
  }
}

int ExitCodeOf(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace ddp::job
