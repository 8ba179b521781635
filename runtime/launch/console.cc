#include "runtime/launch/console.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace ddp::rt::launch {
namespace {

bool JsonWanted() {
  const char* wanted = std::getenv("DDP_LOG");
  return wanted != nullptr && std::string_view(wanted) == "json";
}

struct Name {
  char letter;
  const char* word;
};

Name NameOf(Level level) {
  switch (level) {
    case Level::kDebug:
      return {'D', "debug"};
    case Level::kInfo:
      return {'I', "info"};
    case Level::kWarning:
      return {'W', "warning"};
    case Level::kError:
      break;
  }
  return {'E', "error"};
}

}  // namespace

Console::Console(bool prefixes)
    : prefixes_(prefixes), json_(JsonWanted()), out_(STDOUT_FILENO), err_(STDERR_FILENO) {}

void Console::Line(AsyncWriter& to, int rank, std::string_view line) {
  // A JSON line carries its rank itself.
  to.Write(prefixes_ && !json_ ? fmt::format("[rank {}] {}\n", rank, line)
                               : fmt::format("{}\n", line));
}

void Console::Say(Level level, std::string_view message) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const auto milliseconds = (now - seconds).count();
  const auto calendar = fmt::gmtime(std::chrono::system_clock::to_time_t(seconds));
  if (json_) {
    const nlohmann::ordered_json line = {
        {"ts", fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", calendar, milliseconds)},
        {"level", NameOf(level).word},
        {"from", "launch"},
        {"msg", message}};
    err_.Write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    err_.Write(fmt::format("{} {:%H:%M:%S}.{:03} launch: {}\n", NameOf(level).letter, calendar,
                           milliseconds, message));
  }
}

}  // namespace ddp::rt::launch
