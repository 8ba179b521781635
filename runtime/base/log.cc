#include "runtime/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
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

void SetLogRank(int new_rank, int new_world_size) {
  rank = new_rank;
  world_size = new_world_size;
}

}  // namespace ddp::rt
