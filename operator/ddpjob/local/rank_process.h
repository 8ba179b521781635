// One rank as a local process: started under a supervisor (supervisor.h), its output in a log file.
// Owned by LocalBody, one thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/ddpjob/local/unique_fd.h"
#include "operator/ddpjob/observed.h"

namespace ddp::job {

struct RankCommand {
  std::vector<std::string> command;      // command[0] is a path
  std::vector<std::string> environment;  // "NAME=value"
  std::filesystem::path log;
  bool pipe_output = false;  // standard output through a pipe to us, instead of into the log
  int lock_fd = -1;
};

class RankProcess {
 public:
  // kUnavailable when no process can be made.
  static base::Result<RankProcess> Start(const RankCommand& command, PodRecord record);

  const PodRecord& record() const { return record_; }
  pid_t pid() const { return pid_; }  // of the supervisor; 0 once it has ended
  bool running() const { return pid_ != 0; }
  int output_fd() const { return output_.get(); }  // -1: none, or at its end

  // Asks the program to end; everything is killed at `deadline` (Tick). An earlier deadline counts.
  void Stop(api::TimePoint now, std::chrono::seconds grace);
  void Kill();
  // Kills when the grace is over. The time of that, if it is yet to come.
  std::optional<api::TimePoint> Tick(api::TimePoint now);
  // The supervisor has been reaped. Returns what was left in the pipe.
  std::string Ended(int exit_code, api::TimePoint now);
  // Reads what the pipe holds, up to a bound, and writes it to the log; "" when there is nothing
  // now.
  std::string ReadOutput();

 private:
  RankProcess() = default;

  PodRecord record_;
  pid_t pid_ = 0;
  UniqueFd lifeline_;  // as long as it is open the rank lives
  UniqueFd output_;
  UniqueFd log_;
  std::filesystem::path log_path_;
  bool killed_ = false;
};

}  // namespace ddp::job
