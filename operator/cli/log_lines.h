// Cuts the log of one rank into lines and decides what becomes of each: which have been shown
// before a broken connection, and what stands in front of them. Not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ddp::cli {

class LogLines {
 public:
  // `timed`: each line comes with its time in front, which is kept in what is shown if
  // `show_times`. `on_line` gets lines with their end.
  LogLines(std::string prefix, bool timed, bool show_times,
           std::function<void(std::string_view)> on_line)
      : prefix_(std::move(prefix)),
        timed_(timed),
        show_times_(show_times),
        on_line_(std::move(on_line)) {}

  void Feed(std::string_view bytes);
  // The stream has ended: what is left is a line too.
  void End();
  // The stream broke: half a line is dropped, it comes again.
  void Break();

  // Of the last line shown: from where to ask again. "" before the first.
  const std::string& last_time() const { return last_time_; }

 private:
  void Show(std::string_view line);

  const std::string prefix_;
  const bool timed_;
  const bool show_times_;
  const std::function<void(std::string_view)> on_line_;
  std::string partial_;
  bool continues_ = false;  // what comes next belongs to a line that was shown in part
  std::string last_time_;
  // After a break: the server repeats lines of the second that it is asked for.
  std::string skip_until_;
};

}  // namespace ddp::cli
