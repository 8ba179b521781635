// Which rank failed first, and what the launcher says and returns because of it. Pure.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace ddp::rt::launch {

// One rank that has ended.
struct Ended {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;
  int status = 0;                      // as waitpid gives it
  std::chrono::milliseconds after{0};  // since the ranks were started
  bool told = false;                   // by a signal of the launcher's own, of which it died
  std::deque<std::string> last_lines;  // of its standard error
};

// The exit code, or 128 + signal, as shells have it.
int ExitCodeOf(int status);
// "exit code 3", "SIGSEGV (signal 11, core dumped)".
std::string DescribeEnd(int status);
std::string SignalName(int signal);

// A rank that dies closes its connections before its death becomes known, so one that fails because
// of it may be first by a hair. Failures so close together are taken for one.
inline constexpr std::chrono::milliseconds kAtOnce(100);

// Index of the rank that failed first; nothing if none failed. `ended` is in the order of time; of
// failures at once, one by a signal is the cause. A rank that has lost a peer (69) is blamed only
// if all say so; one that stopped on request (75), or died of the launcher's own signal, never.
std::optional<size_t> FirstFailure(const std::vector<Ended>& ended);

// The launcher's own exit code: the first failed rank's; else 137 or 143 if ranks had to be ended
// by signals, else 75 if a rank stopped on request, else 0.
int ExitCodeOf(const std::vector<Ended>& ended);

// Whether starting the ranks again could help: not after success, a stop on request, or an error
// that only the user can mend (64, 65, 66, 78).
bool WorthRestarting(int exit_code);

// What to tell the user about the failure, in lines.
std::vector<std::string> Report(const std::vector<Ended>& ended, size_t first,
                                const std::string& hint);

}  // namespace ddp::rt::launch
