// What the status page remembers of each job's training: how the loss went, and where the ranks
// were at the last pull. In memory only and bounded; after a restart of the operator it starts
// anew. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "operator/ddpjob/progress/read_progress.h"

namespace ddp::page {

struct LossPoint {
  int64_t step = 0;
  double loss = 0;
  bool operator==(const LossPoint&) const = default;
};

struct Training {
  std::vector<LossPoint> losses;  // by step, ascending
  std::vector<job::RankProgress> ranks;
};

class TrainingHistory {
 public:
  static constexpr size_t kMaxPoints = 256;  // of a job: as many as a curve can show
  static constexpr size_t kMaxJobs = 2'000;

  // `key` is "namespace/name". A step before the last one (a resume from a checkpoint) takes back
  // what came after it.
  void Record(const std::string& key, const job::ProgressReply& reply);
  // Empty for a job that nothing is known of.
  Training Of(const std::string& key) const;
  // Drops the jobs that `exists` denies.
  void Prune(const std::function<bool(const std::string& key)>& exists);

 private:
  struct Entry {
    Training training;
    int64_t spacing = 1;  // least difference in steps between two points
  };

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace ddp::page
