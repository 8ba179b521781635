// One JSON object a line on standard error: ts, level, msg, then the fields. Messages are constant
// and lower case; what varies is a field. Never log tokens or whole objects. Thread-safe.
//
//   base::Log(base::Level::kInfo, "created pods", {{"job", "default/mnist"}, {"count", 8}});
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace ddp::base {

enum class Level { kDebug, kInfo, kWarning, kError };

struct Field {
  Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  Field(std::string_view k, std::string_view v) : key(k), value(std::string(v)) {}
  Field(std::string_view k, const char* v) : key(k), value(std::string(v)) {}
  Field(std::string_view k, int v) : key(k), value(static_cast<int64_t>(v)) {}
  Field(std::string_view k, int64_t v) : key(k), value(v) {}
  Field(std::string_view k, size_t v) : key(k), value(static_cast<int64_t>(v)) {}
  Field(std::string_view k, double v) : key(k), value(v) {}
  Field(std::string_view k, bool v) : key(k), value(v) {}
  std::string_view key;
  std::variant<std::string, int64_t, double, bool> value;
};

void Log(Level level, std::string_view message, std::initializer_list<Field> fields = {});
// What is below is dropped; kInfo at start. "debug|info|warning|error"; false for any other text.
void SetLogLevel(Level level);
bool SetLogLevel(std::string_view name);
// The line that Log would write, without its time: for tests.
std::string FormatLogForTest(Level level, std::string_view message,
                             std::initializer_list<Field> fields);

}  // namespace ddp::base
