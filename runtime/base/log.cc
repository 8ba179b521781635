#include "runtime/base/log.h"

#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>

namespace ddp::rt {
namespace {

bool JsonWanted() {
  const char* wanted = std::getenv("DDP_LOG");
  return wanted != nullptr && std::string_view(wanted) == "json";
}

spdlog::logger& Logger() {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("rank", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(
        JsonWanted() ? R"({"ts":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})" : "%L %H:%M:%S.%e %v",
        spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

int rank = 0;
int world_size = 1;

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void Log(Level level, std::string_view message) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  static const bool json = JsonWanted();
  const std::string line = json ? fmt::format(R"("rank":{},"msg":"{}")", rank, Escaped(message))
                                : fmt::format("rank {}/{}: {}", rank, world_size, message);
  Logger().log(kLevels[static_cast<int>(level)], "{}", line);
}

void LogLastWords(std::string_view message) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(now - seconds).count();
  const std::time_t time = seconds.count();
  std::tm utc{};
  gmtime_r(&time, &utc);
  std::array<char, 512> line{};  // below PIPE_BUF: written whole or not at all
  const auto say = [&](auto format, auto... arguments) {
    return static_cast<std::size_t>(
        fmt::format_to_n(line.data(), line.size(), format, arguments...).out - line.data());
  };
  const std::string_view text = message.substr(0, 400);
  // What could need escaping is not in these sentences; a quote would only spoil one line.
  const std::size_t size =
      JsonWanted()
          ? say(FMT_STRING(R"({{"ts":"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z","level":"error",)"
                           R"("rank":{},"msg":"{}"}})"
                           "\n"),
                utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                utc.tm_sec, milliseconds, rank, text)
          : say(FMT_STRING("E {:02}:{:02}:{:02}.{:03} rank {}/{}: {}\n"), utc.tm_hour, utc.tm_min,
                utc.tm_sec, milliseconds, rank, world_size, text);
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) == 1 && write(STDERR_FILENO, line.data(), size) < 0) {
    return;  // nobody listens
  }
}

void SetLogRank(int new_rank, int new_world_size) {
  rank = new_rank;
  world_size = new_world_size;
}

}  // namespace ddp::rt
