// The last that was seen of pods which are gone. A mark of disruption, an exit code and the removal
// may arrive together; whoever looks at the cache afterwards sees only that a pod is missing, and
// would take an eviction for a deletion, or forget that its rank had succeeded. Kept for a few
// minutes, in memory only. Thread-safe.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/clock.h"
#include "operator/ddpjob/observed.h"

namespace ddp::job {

class DepartedPods {
 public:
  // Far longer than a reconcile waits for its turn.
  static constexpr std::chrono::minutes kKept{5};

  explicit DepartedPods(const base::Clock& clock = base::SystemClock()) : clock_(clock) {}

  // `job` is the UID of the pod's job.
  void Saw(const std::string& job, PodRecord last);
  std::vector<PodRecord> Of(const std::string& job) const;
  void Forget(const std::string& job);  // it is gone

 private:
  using Time = std::chrono::steady_clock::time_point;

  const base::Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<PodRecord>> pods_;
  std::deque<std::pair<Time, std::string>> jobs_;  // of what was seen, eldest first
};

}  // namespace ddp::job
