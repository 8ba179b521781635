#include "operator/cli/log_lines.h"

#include <algorithm>

namespace ddp::cli {
namespace {

// One line of a log may be as long as its writer likes; shown in pieces it costs no memory.
constexpr size_t kMaxLine = size_t{256} * 1024;

}  // namespace

void LogLines::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    partial_ += bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (end != std::string_view::npos || partial_.size() >= kMaxLine) {
      Show(partial_);
      partial_.clear();
      continues_ = end == std::string_view::npos;
    }
  }
}

void LogLines::End() {
  if (!partial_.empty()) {
    Show(partial_);
  }
  partial_.clear();
  continues_ = false;
}

void LogLines::Break() {
  partial_.clear();
  continues_ = false;
  skip_until_ = last_time_;
}

void LogLines::Show(std::string_view line) {
  std::string_view shown = line;
  if (timed_ && !continues_) {
    const std::string_view time = line.substr(0, line.find(' '));
    // Times are RFC 3339 with a fixed number of digits: they compare as text.
    if (!skip_until_.empty() && time <= skip_until_) {
      return;
    }
    last_time_ = time;
    if (!show_times_) {
      shown.remove_prefix(std::min(line.size(), time.size() + 1));
    }
  }
  std::string text = prefix_;
  text += shown;
  text += '\n';
  on_line_(text);
}

}  // namespace ddp::cli
