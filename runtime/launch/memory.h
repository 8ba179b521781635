// Tells a process that the kernel killed for lack of memory from one that somebody else killed: by
// the counters that control groups keep. Owned by the launcher's loop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::rt::launch {

// The `oom_kill` line of memory.events (version 2) or memory.oom_control (version 1).
std::optional<int64_t> ParseOomKills(std::string_view text);
// The folder of this process in the control group file system, from the text of /proc/self/cgroup:
// of version 2, or of version 1's memory controller. "" if it names none.
std::string ParseCgroup(std::string_view text);

class OomWatch {
 public:
  // `root` holds proc/ and sys/: "/" but in tests.
  explicit OomWatch(std::filesystem::path root = "/");

  // A sentence about a rank that died of SIGKILL.
  std::string Hint() const;

 private:
  std::optional<int64_t> Kills() const;

  std::filesystem::path folder_;  // empty if it can't be told
  std::optional<int64_t> before_;
};

}  // namespace ddp::rt::launch
