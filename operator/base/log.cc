#include "operator/base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cmath>

#include "operator/base/clock.h"

namespace ddp::base {
namespace {

spdlog::logger& Logger() {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("ddp", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

constexpr const char* kNames[] = {"debug", "info", "warning", "error"};

spdlog::level::level_enum ToSpdlog(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<int>(level)];
}

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

struct Append {
  std::string& out;
  void operator()(const std::string& v) const { AppendQuoted(out, v); }
  void operator()(int64_t v) const { out += fmt::format("{}", v); }
  void operator()(double v) const { out += std::isfinite(v) ? fmt::format("{}", v) : "null"; }
  void operator()(bool v) const { out += v ? "true" : "false"; }
};

std::string Format(std::string_view ts, Level level, std::string_view message,
                   std::initializer_list<Field> fields) {
  std::string line = "{";
  if (!ts.empty()) {
    line += fmt::format(R"("ts":"{}",)", ts);
  }
  line += fmt::format(R"("level":"{}","msg":)", kNames[static_cast<int>(level)]);
  AppendQuoted(line, message);
  for (const Field& field : fields) {
    line += ',';
    AppendQuoted(line, field.key);
    line += ':';
    std::visit(Append{line}, field.value);
  }
  return line + "}";
}

}  // namespace

void Log(Level level, std::string_view message, std::initializer_list<Field> fields) {
  spdlog::logger& logger = Logger();
  if (logger.should_log(ToSpdlog(level))) {
    logger.log(ToSpdlog(level), "{}",
               Format(FormatMicroTime(SystemClock().Now()), level, message, fields));
  }
}

void SetLogLevel(Level level) { Logger().set_level(ToSpdlog(level)); }

bool SetLogLevel(std::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (name == kNames[i]) {
      SetLogLevel(static_cast<Level>(i));
      return true;
    }
  }
  return false;
}

std::string FormatLogForTest(Level level, std::string_view message,
                             std::initializer_list<Field> fields) {
  return Format("", level, message, fields);
}

}  // namespace ddp::base
