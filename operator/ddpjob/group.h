// The pods of one attempt by rank, and what they amount to. Points into Observed: lives no longer
// than it. Pure.
#pragma once

#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

class Group {
 public:
  Group(const Observed& observed, int attempt);

  const std::vector<const PodRecord*>& by_rank() const { return by_rank_; }  // null: not there
  // The highest attempt among all labels; 0 without pods.
  int newest_attempt() const { return newest_attempt_; }

  std::vector<int> MissingRanks(const api::RankSet& done) const;
  // Every rank's worker runs, ran, or is done.
  bool AllStarted(const api::RankSet& done) const;
  bool AllReady(const api::RankSet& done) const;
  bool AnyScheduled() const;
  api::ReplicaCounts Count(const api::RankSet& done) const;

  // Pods that ended badly, are being deleted by somebody, or — when all had been created — are
  // gone. A rank that is done is never among them.
  std::vector<PodRecord> Failed(const api::Metadata& job, const api::Status& status) const;
  // Ranks that neither failed nor are done: their end may still tell more.
  bool AnyUndecided(const api::RankSet& done) const;

 private:
  int attempt_;
  std::vector<const PodRecord*> by_rank_;
  int newest_attempt_ = 0;
};

// When the last of the old pods has ended, or has had its grace and a margin (its node may be dead;
// that must not hold up a new attempt). Nothing: some pod is not even being deleted yet.
// A time in the past: nothing is left to wait for.
std::optional<TimePoint> StoppedBy(const std::vector<PodRecord>& pods);

}  // namespace ddp::job
