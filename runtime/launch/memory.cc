#include "runtime/launch/memory.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace ddp::rt::launch {
namespace {

namespace fs = std::filesystem;

std::string Text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Calls `take` with each line.
template <typename Take>
void ForEachLine(std::string_view text, Take take) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    take(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

// Version 2 has one tree, version 1 one for each controller; within a container the path is "/".
fs::path FolderBelow(const fs::path& root, const std::string& path) {
  std::error_code error;
  const std::string inner = path.starts_with('/') ? path.substr(1) : path;
  for (const char* tree : {"sys/fs/cgroup", "sys/fs/cgroup/memory"}) {
    for (const fs::path& folder : {root / tree / inner, root / tree}) {
      if (fs::exists(folder / "memory.events", error) ||
          fs::exists(folder / "memory.oom_control", error)) {
        return folder;
      }
    }
  }
  return {};
}

}  // namespace

std::optional<int64_t> ParseOomKills(std::string_view text) {
  constexpr std::string_view kKey = "oom_kill ";
  std::optional<int64_t> kills;
  ForEachLine(text, [&](std::string_view line) {
    if (line.starts_with(kKey)) {
      line.remove_prefix(kKey.size());
      int64_t value = 0;
      const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
      if (error == std::errc() && stop == line.data() + line.size() && value >= 0) {
        kills = value;
      }
    }
  });
  return kills;
}

std::string ParseCgroup(std::string_view text) {
  std::string unified;
  std::string memory;
  ForEachLine(text, [&](std::string_view line) {
    // "0::/path" or "7:memory:/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) {
      return;
    }
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers.empty()) {
      unified = path;
    } else if (controllers == "memory") {
      memory = path;
    }
  });
  return memory.empty() ? unified : memory;
}

OomWatch::OomWatch(fs::path root)
    : folder_(FolderBelow(root, ParseCgroup(Text(root / "proc/self/cgroup")))), before_(Kills()) {}

std::optional<int64_t> OomWatch::Kills() const {
  if (folder_.empty()) {
    return std::nullopt;
  }
  const auto events = ParseOomKills(Text(folder_ / "memory.events"));
  return events ? events : ParseOomKills(Text(folder_ / "memory.oom_control"));
}

std::string OomWatch::Hint() const {
  const auto now = Kills();
  if (!now || !before_) {
    return "hint: SIGKILL comes from a person, a supervisor or the kernel's out-of-memory killer: "
           "look into the kernel's log";
  }
  if (*now > *before_) {
    std::string limit = Text(folder_ / "memory.max");
    limit = limit.substr(0, limit.find('\n'));
    return fmt::format(
        "hint: out of memory: since the start the kernel has killed {} process(es) of this "
        "container for lack of memory (limit {} bytes); raise the limit, or use less: a smaller "
        "batch, fewer ranks",
        *now - *before_, limit.empty() ? "unknown" : limit);
  }
  return "hint: not this container's memory limit (its control group counts no kill): SIGKILL came "
         "from a person, a supervisor, or the kernel when the whole host ran out of memory";
}

}  // namespace ddp::rt::launch
