// What a local run shows: events and the progress bar on standard error, rank 0's own words on
// standard output. On a terminal the bar is one line that is drawn over; elsewhere progress comes
// as plain lines, a few a minute. One thread, that of the body's loop.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "operator/ddpjob/local/local_body.h"

namespace ddp::cli {

class RunView : public job::LocalListener {
 public:
  explicit RunView(std::string job);

  void OnEvent(const job::Event& event) override;
  void OnOutput(std::string_view text) override;
  void OnAttempt(int attempt) override;
  void OnProgress(const job::ProgressReply& progress) override;
  void OnStopping(bool at_once) override;

  // A line of ours on standard error, above the bar.
  void Say(std::string_view line);
  // Takes the bar off the terminal.
  void Finish();

 private:
  void Draw();
  void Clear();

  std::string job_;
  bool terminal_;
  bool drawn_ = false;
  bool line_open_ = false;  // rank 0's last text had no end of line yet
  std::optional<job::ProgressReply> progress_;
  std::optional<std::chrono::steady_clock::time_point> last_line_;
};

}  // namespace ddp::cli
