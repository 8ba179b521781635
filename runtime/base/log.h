// One line per message on standard error, for people and machines alike:
//   I 03:04:05.678 rank 1/2: saved checkpoint path=… seconds=0.12
// With DDP_LOG=json each line is a JSON object instead. Thread-safe.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace ddp::rt {

enum class Level { kDebug, kInfo, kWarning, kError };

void Log(Level level, std::string_view message);

template <typename... Args>
void Log(Level level, fmt::format_string<Args...> format,
         Args&&... args) requires(sizeof...(Args) > 0) {
  Log(level, std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

// An error of a program that must end whatever its other threads hold: takes no lock, allocates
// nothing, and is lost if standard error takes nothing at the moment. At most 400 bytes.
void LogLastWords(std::string_view message);

template <typename... Args>
void LogLastWords(fmt::format_string<Args...> format,
                  Args&&... args) requires(sizeof...(Args) > 0) {
  std::array<char, 400> words{};
  const auto end =
      fmt::format_to_n(words.data(), words.size(), format, std::forward<Args>(args)...);
  LogLastWords(std::string_view(words.data(), std::min(end.size, words.size())));
}

// Called once at start; what every later line is prefixed with.
void SetLogRank(int rank, int world_size);

}  // namespace ddp::rt
