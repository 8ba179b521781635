#include "runtime/launch/blame.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "runtime/base/error.h"

namespace ddp::rt::launch {
namespace {

constexpr int kSignalExitBase = 128;
constexpr int kLostPeer = static_cast<int>(ExitCode::kUnavailable);
constexpr int kStopped = static_cast<int>(ExitCode::kTempFail);

bool Failed(const Ended& ended) {
  const int code = ExitCodeOf(ended.status);
  return code != 0 && code != kStopped && !ended.told;
}

}  // namespace

int ExitCodeOf(int status) {
  return WIFSIGNALED(status) ? kSignalExitBase + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string DescribeEnd(int status) {
  if (!WIFSIGNALED(status)) {
    return fmt::format("exit code {}", WEXITSTATUS(status));
  }
  return fmt::format("{} (signal {}{})", SignalName(WTERMSIG(status)), WTERMSIG(status),
                     WCOREDUMP(status) ? ", core dumped" : "");
}

std::optional<size_t> FirstFailure(const std::vector<Ended>& ended) {
  std::optional<size_t> lost_peer;
  std::optional<size_t> first;
  for (size_t i = 0; i < ended.size(); ++i) {
    if (!Failed(ended[i])) {
      continue;
    }
    if (ExitCodeOf(ended[i].status) == kLostPeer) {
      lost_peer = lost_peer.value_or(i);
    } else if (!first) {
      first = i;
    } else if (!WIFSIGNALED(ended[*first].status) && WIFSIGNALED(ended[i].status) &&
               ended[i].after - ended[*first].after <= kAtOnce) {
      first = i;
    }
  }
  return first ? first : lost_peer;
}

int ExitCodeOf(const std::vector<Ended>& ended) {
  if (const auto first = FirstFailure(ended)) {
    return ExitCodeOf(ended[*first].status);
  }
  int code = 0;
  for (const Ended& one : ended) {
    code = std::max(code, ExitCodeOf(one.status));
  }
  return code;
}

bool WorthRestarting(int exit_code) {
  switch (static_cast<ExitCode>(exit_code)) {
    case ExitCode::kOk:
    case ExitCode::kUsage:
    case ExitCode::kData:
    case ExitCode::kNoInput:
    case ExitCode::kTempFail:
    case ExitCode::kConfig:
      return false;
    default:
      return true;
  }
}

std::vector<std::string> Report(const std::vector<Ended>& ended, size_t first,
                                const std::string& hint) {
  const Ended& blamed = ended[first];
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("rank {} (local rank {}, pid {}) failed first: {}, {:.1f} s after start",
                  blamed.rank, blamed.local_rank, blamed.pid, DescribeEnd(blamed.status),
                  std::chrono::duration<double>(blamed.after).count()));
  if (!blamed.last_lines.empty()) {
    lines.push_back(fmt::format("the last lines of its standard error:"));
    for (const std::string& line : blamed.last_lines) {
      lines.push_back("  | " + line);
    }
  }
  if (!hint.empty()) {
    lines.push_back(hint);
  }
  for (size_t i = 0; i < ended.size(); ++i) {
    if (i != first) {
      lines.push_back(fmt::format("rank {}: {}, {:.1f} s after start{}", ended[i].rank,
                                  DescribeEnd(ended[i].status),
                                  std::chrono::duration<double>(ended[i].after).count(),
                                  ended[i].told ? ", by the launcher" : ""));
    }
  }
  return lines;
}

}  // namespace ddp::rt::launch
