// Asks rank 0 of every running job how far it is, on a thread of its own and many at once, so that
// no slow or hostile pod holds anybody up: reconcile workers only look at what came last.
// Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "operator/base/clock.h"
#include "operator/ddpjob/progress/http_get.h"
#include "operator/ddpjob/progress/pull_schedule.h"

namespace ddp::job {

// Whom to ask; nothing for a job whose rank 0 does not run, or is not to be asked: on the network
// of its node, or at a port that belongs to the system. Pure.
std::optional<PullTarget> FindPullTarget(const Observed& observed);

class ProgressPuller {
 public:
  // Both are called on the puller's thread and must not block.
  struct Callbacks {
    std::function<void(const std::string& key)> news;  // Latest() has something worth a look
    std::function<void(const std::string& key, const base::Result<ProgressReply>&)> pulled;  // each
  };

  explicit ProgressPuller(Callbacks callbacks, PullOptions options = {},
                          const base::Clock& clock = base::SystemClock());
  ProgressPuller(const ProgressPuller&) = delete;
  ProgressPuller& operator=(const ProgressPuller&) = delete;

  // From now on, until another target or nothing is named; cheap when nothing changes.
  void Watch(const std::string& key, const std::optional<PullTarget>& target);
  std::optional<ProgressPull> Latest(const std::string& key, int attempt) const;
  size_t watched() const;

 private:
  void Pump();
  void Finish(const PullSchedule::Pull& pull, const base::Result<std::string>& answer);

  const Callbacks callbacks_;
  const base::Clock& clock_;
  mutable std::mutex mutex_;
  PullSchedule schedule_;
  HttpGetter getter_;  // last: its thread uses all the others
};

}  // namespace ddp::job
