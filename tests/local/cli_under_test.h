// Runs the real kubectl-ddp in a folder of its own, with shell scripts as workers. Everything that
// is waited for is an event with a deadline: the end of a process (pidfd), a line that a worker
// writes to a FIFO.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "operator/ddpjob/local/unique_fd.h"
#include "operator/json/json.h"

namespace ddp::testing {

namespace fs = std::filesystem;
using job::UniqueFd;

inline constexpr std::chrono::milliseconds kPatience{15'000};

inline std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// True once the process has ended (a zombie has).
inline bool WaitForEnd(pid_t pid, std::chrono::milliseconds patience) {
  const UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) {
    return true;  // no such process any more
  }
  pollfd wait{fd.get(), POLLIN, 0};
  return poll(&wait, 1, static_cast<int>(patience.count())) == 1;
}

// A program that runs in the test's folder, its output in a pipe to us; killed when the test is
// over.
class Program {
 public:
  Program(const fs::path& folder, std::vector<std::string> words,
          std::vector<std::string> environment) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    output_ = UniqueFd(ends[0]);
    const UniqueFd writing(ends[1]);
    fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), 1);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), 2);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      environment.emplace_back(*entry);
    }
    EXPECT_EQ(posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, Pointers(words).data(),
                          Pointers(environment).data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ > 0 && !code_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  pid_t pid() const { return pid_; }
  const std::string& Output() const { return text_; }  // what has been read so far
  void Signal(int signal) const { kill(pid_, signal); }

  // The exit code, 128 + signal for a death by signal; -1 when it does not end in time.
  int Wait(std::chrono::milliseconds patience = kPatience) {
    const UniqueFd end(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    if (!ReadUntil(patience, end.get(), [] { return false; })) {
      return -1;
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    ReadWhatIsThere();
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return *code_;
  }

  // Waits until the output has this text.
  void Expect(const std::string& text, std::chrono::milliseconds patience) {
    EXPECT_TRUE(ReadUntil(patience, -1, [&] { return text_.find(text) != std::string::npos; }))
        << "waited in vain for '" << text << "' in:\n"
        << text_;
  }

 private:
  static std::vector<char*> Pointers(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) {
      pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
  }

  void ReadWhatIsThere() {
    std::array<char, 4096> chunk{};
    ssize_t size = 0;
    while (output_ && (size = read(output_.get(), chunk.data(), chunk.size())) > 0) {
      text_.append(chunk.data(), static_cast<size_t>(size));
    }
    if (size == 0) {
      output_.Reset();
    }
  }

  // Until `found`, or `end` is readable: true; false at the deadline.
  template <typename Found>
  bool ReadUntil(std::chrono::milliseconds patience, int end, Found found) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!found()) {
      std::array<pollfd, 2> waits = {pollfd{output_.get(), POLLIN, 0}, pollfd{end, POLLIN, 0}};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0 ||
          poll(waits.data(), waits.size(), static_cast<int>(left.count())) <= 0) {
        return false;
      }
      ReadWhatIsThere();
      if (waits[1].revents != 0) {
        return true;
      }
    }
    return true;
  }

  pid_t pid_ = 0;
  UniqueFd output_;
  std::string text_;
  std::optional<int> code_;
};

class CliTest : public ::testing::Test {
 public:
  CliTest(const CliTest&) = delete;
  CliTest& operator=(const CliTest&) = delete;
  ~CliTest() override { fs::remove_all(folder_); }

 protected:
  CliTest() {
    std::string pattern = ::testing::TempDir() + "ddp-cli.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    EXPECT_EQ(mkfifo((folder_ / "news").c_str(), 0600), 0);
    // Open for writing too, so that it never ends.
    news_ = UniqueFd(open((folder_ / "news").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  // job.yaml: each rank runs the shell script, which may `say` things to the test.
  void WriteJob(const std::string& script, int replicas = 2, const std::string& more_spec = "",
                int grace_seconds = 5) const {
    Write("worker.sh",
          R"(say() { echo "$*" >")" + (folder_ / "news").string() + "\"; }\n" + script);
    Write("job.yaml",
          "apiVersion: ddpjob.dev/v1alpha1\nkind: DDPJob\nmetadata: {name: job}\nspec:\n"
          "  replicas: " +
              std::to_string(replicas) + "\n" + more_spec +
              "  template:\n    spec:\n      terminationGracePeriodSeconds: " +
              std::to_string(grace_seconds) +
              "\n      containers:\n      - name: worker\n        image: none\n"
              "        command: [/bin/sh, " +
              (folder_ / "worker.sh").string() + "]\n");
  }

  Program Cli(std::vector<std::string> words,
              const std::vector<std::string>& variables = {}) const {
    words.insert(words.begin(), DDP_KUBECTL_DDP);
    return {folder_, std::move(words), variables};
  }
  Program Run() const { return Cli({"run", "-f", "job.yaml"}); }

  // The next line that a worker says; "" when none comes in time.
  std::string Hear() {
    while (heard_.find('\n') == std::string::npos) {
      pollfd wait{news_.get(), POLLIN, 0};
      if (poll(&wait, 1, static_cast<int>(kPatience.count())) != 1) {
        ADD_FAILURE() << "no worker said anything in time";
        return "";
      }
      std::array<char, 4096> chunk{};
      const ssize_t size = read(news_.get(), chunk.data(), chunk.size());
      heard_.append(chunk.data(), size > 0 ? static_cast<size_t>(size) : 0);
    }
    const size_t end = heard_.find('\n');
    std::string line = heard_.substr(0, end);
    heard_.erase(0, end + 1);
    return line;
  }
  std::vector<std::string> Hear(size_t count) {
    std::vector<std::string> lines;
    for (size_t i = 0; i < count; ++i) {
      lines.push_back(Hear());
    }
    return lines;
  }
  // Lines that are numbers of processes.
  std::vector<pid_t> HearPids(size_t count) {
    std::vector<pid_t> pids;
    for (const std::string& line : Hear(count)) {
      pids.push_back(static_cast<pid_t>(std::strtol(line.c_str(), nullptr, 10)));
      EXPECT_GT(pids.back(), 1) << line;
    }
    return pids;
  }

  json::Json Status() const { return *json::Parse(ReadFile(folder_ / ".ddp/job/status.json")); }

  fs::path folder_;

 private:
  UniqueFd news_;
  std::string heard_;
};

}  // namespace ddp::testing
