// Which samples a rank sees in an epoch, in which order: exactly those of PyTorch's
// DistributedSampler (torch/utils/data/distributed.py), so that a run can be compared sample by
// sample with a Python one. Not thread-safe; one object per rank.
//
// With N samples and R ranks every rank gets the same number, ceil(N/R); the list is padded with
// its own beginning to R times that (or, with drop_last, cut). Rank r takes elements r, r+R, r+2R,
// … of the list, so the union of all ranks' k-th samples is one contiguous piece of the global
// order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddp::rt::data {

// The order of all samples in an epoch, a function of seed + epoch alone: what the sampler deals
// out to the ranks.
std::vector<int64_t> EpochOrder(int64_t samples, bool shuffle, uint64_t seed, int64_t epoch);

struct SamplerOptions {
  int64_t samples = 0;  // N
  int ranks = 1;        // R
  int rank = 0;
  bool shuffle = true;
  uint64_t seed = 0;
  bool drop_last = false;
};

class DistributedSampler {
 public:
  // Starts in epoch 0.
  explicit DistributedSampler(const SamplerOptions& options);

  // Draws the order of an epoch: a function of seed + epoch alone.
  void SetEpoch(int64_t epoch);

  // This rank's samples of the epoch, in order.
  std::span<const int64_t> indices() const { return indices_; }
  // How many samples each rank sees in an epoch.
  int64_t size() const { return size_; }

 private:
  SamplerOptions options_;
  int64_t size_;
  std::vector<int64_t> indices_;
};

// A contiguous part [begin, end) for each rank such that all parts together are [0, samples), each
// once, for any number of ranks: for evaluation, which must not count padding.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
};
Slice EvaluationSlice(int64_t samples, int ranks, int rank);

}  // namespace ddp::rt::data
