// What rank 0 tells of the training, for a loop that polls: a ProgressPuller that makes a
// descriptor readable when there is news. Owned by LocalBody; used by its thread.
#pragma once

#include <mutex>
#include <optional>

#include "operator/ddpjob/local/unique_fd.h"
#include "operator/ddpjob/progress/progress_puller.h"

namespace ddp::job {

class ProgressFeed {
 public:
  ProgressFeed();

  // Whom to ask, if anybody; cheap when nothing changes.
  void Watch(const std::optional<PullTarget>& target) { puller_.Watch(kKey, target); }
  // Readable when there is news; Take() makes it unreadable.
  int fd() const { return news_.get(); }
  // The newest answer, if one came since the last call.
  std::optional<ProgressReply> Take();
  // For the plan.
  std::optional<ProgressPull> Latest(int attempt) const { return puller_.Latest(kKey, attempt); }

 private:
  static constexpr const char* kKey = "local";
  static PullOptions Options();
  void Wake() const;

  UniqueFd news_;
  std::mutex mutex_;
  std::optional<ProgressReply> newest_;
  ProgressPuller puller_;  // last: its thread uses all the others
};

}  // namespace ddp::job
