// Asks rank 0 twice a second how far it is, on a thread of its own, so that a slow answer never
// holds up the loop that watches the processes. Thread-safe; owned by the run command.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "operator/cli/progress.h"
#include "operator/ddpjob/local/unique_fd.h"

namespace ddp::cli {

class ProgressPuller {
 public:
  ProgressPuller();
  ProgressPuller(const ProgressPuller&) = delete;
  ProgressPuller& operator=(const ProgressPuller&) = delete;

  // Where rank 0 listens from now on, on loopback.
  void Watch(int port);
  // Readable when there is news; Take() makes it unreadable.
  int fd() const { return news_.get(); }
  std::optional<Progress> Take();

 private:
  void Loop(const std::stop_token& stop);

  job::UniqueFd news_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  int port_ = 0;
  std::optional<Progress> newest_;
  std::jthread thread_;  // last: it uses all the others
};

}  // namespace ddp::cli
