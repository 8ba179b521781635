// A child process that cannot outlive the test. Every wait has a bound.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddp::integration {

// Looks again every 20 ms until `done` or the deadline; false: too late. For other programs' state,
// which nothing else announces.
bool Eventually(std::chrono::milliseconds deadline, const std::function<bool()>& done,
                std::chrono::milliseconds period = std::chrono::milliseconds(20));

class Process {
 public:
  // Standard output and error go to `log` (appended). `command[0]` is a path.
  Process(const std::vector<std::string>& command, const std::string& log);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();  // kills it

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // The exit code, 128 + the signal that ended it, or nothing if it still runs at the deadline.
  std::optional<int> Wait(std::chrono::milliseconds deadline);
  bool Running();

 private:
  pid_t pid_;
  std::optional<int> code_;
};

// Runs to its end; its standard output. Aborts the test program when it fails or takes too long.
std::string RunOrDie(const std::vector<std::string>& command,
                     std::chrono::milliseconds deadline = std::chrono::seconds(30));

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);

}  // namespace ddp::integration
