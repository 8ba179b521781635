#include "operator/ddpjob/group.h"

#include <algorithm>

#include "operator/api/names.h"

namespace ddp::job {
namespace {

bool Undecided(const PodRecord* pod) {
  return pod != nullptr && !pod->failed() && !pod->succeeded() && !pod->deletion_time;
}

}  // namespace

Group::Group(const Observed& observed, int attempt)
    : attempt_(attempt),
      processes_(std::max(observed.job.spec.processes_per_replica, 1)),
      by_replica_(static_cast<size_t>(std::max(observed.job.spec.replicas, 0)), nullptr),
      departed_(by_replica_.size(), nullptr) {
  for (const PodRecord& pod : observed.pods) {
    newest_attempt_ = std::max(newest_attempt_, pod.attempt);
    if (pod.attempt == attempt && static_cast<size_t>(pod.rank) < by_replica_.size()) {
      by_replica_[static_cast<size_t>(pod.rank)] = &pod;
    }
  }
  for (const PodRecord& pod : observed.departed) {
    if (pod.attempt == attempt && static_cast<size_t>(pod.rank) < departed_.size()) {
      departed_[static_cast<size_t>(pod.rank)] = &pod;
    }
  }
}

// A pod's ranks are done together.
bool Group::Done(const api::RankSet& done, size_t replica) const {
  return done.Contains(static_cast<int>(replica) * processes_);
}

void Group::AddDone(api::RankSet& done) const {
  for (const auto& pods : {by_replica_, departed_}) {
    for (const PodRecord* pod : pods) {
      for (int local = 0; pod != nullptr && pod->succeeded() && local < processes_; ++local) {
        done.Add(pod->rank * processes_ + local);
      }
    }
  }
}

std::vector<int> Group::Missing(const api::RankSet& done) const {
  std::vector<int> missing;
  for (size_t i = 0; i < by_replica_.size(); ++i) {
    if (by_replica_[i] == nullptr && !Done(done, i)) {
      missing.push_back(static_cast<int>(i));
    }
  }
  return missing;
}

bool Group::AllStarted(const api::RankSet& done) const {
  for (size_t i = 0; i < by_replica_.size(); ++i) {
    const PodRecord* pod = by_replica_[i];
    if (!Done(done, i) && (pod == nullptr || !pod->started)) {
      return false;
    }
  }
  return true;
}

bool Group::AllReady(const api::RankSet& done) const {
  for (size_t i = 0; i < by_replica_.size(); ++i) {
    const PodRecord* pod = by_replica_[i];
    if (!Done(done, i) && (pod == nullptr || !pod->ready)) {
      return false;
    }
  }
  return true;
}

bool Group::AnyScheduled() const {
  return std::any_of(by_replica_.begin(), by_replica_.end(),
                     [](const PodRecord* pod) { return pod != nullptr && !pod->node.empty(); });
}

const PodRecord* Group::FirstNotStarted(const api::RankSet& done) const {
  for (size_t i = 0; i < by_replica_.size(); ++i) {
    const PodRecord* pod = by_replica_[i];
    if (!Done(done, i) && pod != nullptr && !pod->started) {
      return pod;
    }
  }
  return nullptr;
}

api::ReplicaCounts Group::Count(const api::RankSet& done) const {
  api::ReplicaCounts counts;
  counts.desired = static_cast<int>(by_replica_.size());
  counts.succeeded = done.size() / processes_;
  for (const PodRecord* pod : by_replica_) {
    if (pod == nullptr) {
      continue;
    }
    if (pod->failed()) {
      ++counts.failed;
    } else if (!pod->succeeded()) {
      ++counts.active;
      counts.ready += pod->ready ? 1 : 0;
    }
  }
  return counts;
}

std::vector<PodRecord> Group::Failed(const api::Metadata& job, const api::Status& status) const {
  std::vector<PodRecord> failed;
  for (size_t i = 0; i < by_replica_.size(); ++i) {
    const PodRecord* pod = by_replica_[i];
    if (Done(status.succeeded_ranks, i)) {
      continue;
    }
    if (pod == nullptr) {
      if (status.pods_created_time) {
        failed.push_back(Lost(job, i));
      }
    } else if (pod->failed() || (pod->deletion_time && !pod->succeeded())) {
      failed.push_back(*pod);
    }
  }
  return failed;
}

PodRecord Group::Lost(const api::Metadata& job, size_t replica) const {
  PodRecord lost;
  if (departed_[replica] != nullptr) {
    lost = *departed_[replica];
  } else {
    lost.name = api::PodName(job.name, attempt_, static_cast<int>(replica));
    lost.attempt = attempt_;
    lost.rank = static_cast<int>(replica);
  }
  if (!lost.failed()) {  // its own end is not known: all that is, is that somebody took it away
    lost.reason = api::kReasonPodDeleted;
  }
  lost.phase = PodPhase::kFailed;
  return lost;
}

bool Group::AnyUndecided(const api::RankSet& done) const {
  for (size_t i = 0; i < by_replica_.size(); ++i) {
    if (!Done(done, i) && Undecided(by_replica_[i])) {
      return true;
    }
  }
  return false;
}

std::optional<TimePoint> StoppedBy(const std::vector<PodRecord>& pods) {
  TimePoint latest = TimePoint::min();
  for (const PodRecord& pod : pods) {
    if (pod.ended()) {
      continue;
    }
    if (!pod.deletion_time) {
      return std::nullopt;
    }
    latest = std::max(latest, *pod.deletion_time + api::kTerminationMargin);
  }
  return latest;
}

}  // namespace ddp::job
