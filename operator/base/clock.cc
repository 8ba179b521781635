#include "operator/base/clock.h"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>

namespace ddp::base {
namespace {

class RealClock : public Clock {
 public:
  TimePoint Now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }
  std::chrono::steady_clock::time_point Steady() const override {
    return std::chrono::steady_clock::now();
  }
};

std::tm Utc(TimePoint time) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return parts;
}

}  // namespace

const Clock& SystemClock() {
  static const RealClock clock;
  return clock;
}

std::string FormatTime(TimePoint time) {
  const std::tm t = Utc(time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
}

std::string FormatMicroTime(TimePoint time) {
  const auto fraction = time - std::chrono::floor<std::chrono::seconds>(time);
  std::string text = FormatTime(time);
  text.pop_back();
  return fmt::format("{}.{:06}Z", text, fraction.count());
}

Result<TimePoint> ParseTime(std::string_view text) {
  const Error bad{ErrorCode::kInvalid, fmt::format("'{}' is not an RFC 3339 time", text)};
  const std::string copy(text);
  std::tm t{};
  int used = 0;
  if (std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &t.tm_year, &t.tm_mon, &t.tm_mday,
                  &t.tm_hour, &t.tm_min, &t.tm_sec, &used) != 6) {
    return bad;
  }
  t.tm_year -= 1900;
  t.tm_mon -= 1;
  std::string_view rest = std::string_view(copy).substr(static_cast<size_t>(used));
  int64_t micros = 0;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    int64_t unit = 100'000;
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') {
      return bad;
    }
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      micros += unit * (rest[0] - '0');
      unit /= 10;
      rest.remove_prefix(1);
    }
  }
  int64_t offset_minutes = 0;
  if (rest != "Z" && rest != "z") {
    int hours = 0;
    int minutes = 0;
    char sign = 0;
    if (rest.size() != 6 ||
        std::sscanf(std::string(rest).c_str(), "%c%2d:%2d", &sign, &hours, &minutes) != 3 ||
        (sign != '+' && sign != '-')) {
      return bad;
    }
    offset_minutes = (sign == '+' ? 1 : -1) * (int64_t{hours} * 60 + minutes);
  }
  if (t.tm_mon < 0 || t.tm_mon > 11 || t.tm_mday < 1 || t.tm_mday > 31 || t.tm_hour > 23 ||
      t.tm_min > 59 || t.tm_sec > 60) {
    return bad;
  }
  return TimePoint(std::chrono::seconds(timegm(&t) - offset_minutes * 60) + Duration(micros));
}

}  // namespace ddp::base
