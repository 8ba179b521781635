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
      by_rank_(static_cast<size_t>(std::max(observed.job.spec.replicas, 0)), nullptr) {
  for (const PodRecord& pod : observed.pods) {
    newest_attempt_ = std::max(newest_attempt_, pod.attempt);
    if (pod.attempt == attempt && static_cast<size_t>(pod.rank) < by_rank_.size()) {
      by_rank_[static_cast<size_t>(pod.rank)] = &pod;
    }
  }
}

std::vector<int> Group::MissingRanks(const api::RankSet& done) const {
  std::vector<int> missing;
  for (size_t rank = 0; rank < by_rank_.size(); ++rank) {
    if (by_rank_[rank] == nullptr && !done.Contains(static_cast<int>(rank))) {
      missing.push_back(static_cast<int>(rank));
    }
  }
  return missing;
}

bool Group::AllStarted(const api::RankSet& done) const {
  for (size_t rank = 0; rank < by_rank_.size(); ++rank) {
    const PodRecord* pod = by_rank_[rank];
    if (!done.Contains(static_cast<int>(rank)) && (pod == nullptr || !pod->started)) {
      return false;
    }
  }
  return true;
}

bool Group::AllReady(const api::RankSet& done) const {
  for (size_t rank = 0; rank < by_rank_.size(); ++rank) {
    const PodRecord* pod = by_rank_[rank];
    if (!done.Contains(static_cast<int>(rank)) && (pod == nullptr || !pod->ready)) {
      return false;
    }
  }
  return true;
}

bool Group::AnyScheduled() const {
  return std::any_of(by_rank_.begin(), by_rank_.end(),
                     [](const PodRecord* pod) { return pod != nullptr && !pod->node.empty(); });
}

api::ReplicaCounts Group::Count(const api::RankSet& done) const {
  api::ReplicaCounts counts;
  counts.desired = static_cast<int>(by_rank_.size());
  counts.succeeded = done.size();
  for (const PodRecord* pod : by_rank_) {
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
  for (size_t i = 0; i < by_rank_.size(); ++i) {
    const int rank = static_cast<int>(i);
    const PodRecord* pod = by_rank_[i];
    if (status.succeeded_ranks.Contains(rank)) {
      continue;
    }
    if (pod == nullptr) {
      if (status.pods_created_time) {
        PodRecord lost;
        lost.name = api::PodName(job.name, attempt_, rank);
        lost.attempt = attempt_;
        lost.rank = rank;
        lost.phase = PodPhase::kFailed;
        lost.reason = api::kReasonPodDeleted;
        failed.push_back(std::move(lost));
      }
    } else if (pod->failed() || (pod->deletion_time && !pod->succeeded())) {
      failed.push_back(*pod);
    }
  }
  return failed;
}

bool Group::AnyUndecided(const api::RankSet& done) const {
  for (size_t rank = 0; rank < by_rank_.size(); ++rank) {
    if (!done.Contains(static_cast<int>(rank)) && Undecided(by_rank_[rank])) {
      return true;
    }
  }
  return false;
}

std::optional<TimePoint> StoppedBy(const std::vector<PodRecord>& pods) {
  TimePoint latest = TimePoint::min();
  for (const PodRecord& pod : pods) {
    if (pod.terminated()) {
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
