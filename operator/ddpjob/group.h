// The pods of one attempt by replica, and what they amount to. Points into Observed: lives no
// longer than it. Pure.
#pragma once

#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

class Group {
 public:
  Group(const Observed& observed, int attempt);

  // By replica, which is the rank with one process a pod; null: not there.
  const std::vector<const PodRecord*>& by_replica() const { return by_replica_; }
  // The highest attempt among all labels; 0 without pods.
  int newest_attempt() const { return newest_attempt_; }

  // `done` has ranks, all else is about replicas. Pods that are gone count if they had succeeded.
  void AddDone(api::RankSet& done) const;
  std::vector<int> Missing(const api::RankSet& done) const;
  // Every pod's worker runs, ran, or is done.
  bool AllStarted(const api::RankSet& done) const;
  bool AllReady(const api::RankSet& done) const;
  bool AnyScheduled() const;
  // The lowest that has not started; null when all have, or it is not there.
  const PodRecord* FirstNotStarted(const api::RankSet& done) const;
  api::ReplicaCounts Count(const api::RankSet& done) const;

  // Pods that ended badly, are being deleted by somebody, or — when all had been created — are
  // gone, as they were last seen. One that is done is never among them.
  std::vector<PodRecord> Failed(const api::Metadata& job, const api::Status& status) const;
  // Pods that neither failed nor are done: their end may still tell more.
  bool AnyUndecided(const api::RankSet& done) const;

 private:
  bool Done(const api::RankSet& done, size_t replica) const;
  PodRecord Lost(const api::Metadata& job, size_t replica) const;

  int attempt_;
  int processes_;  // ranks of each pod
  std::vector<const PodRecord*> by_replica_;
  std::vector<const PodRecord*> departed_;  // by replica
  int newest_attempt_ = 0;
};

// When the last of the old pods has ended, or has had its grace and a margin (its node may be dead;
// that must not hold up a new attempt). Nothing: some pod is not even being deleted yet.
// A time in the past: nothing is left to wait for.
std::optional<TimePoint> StoppedBy(const std::vector<PodRecord>& pods);

}  // namespace ddp::job
