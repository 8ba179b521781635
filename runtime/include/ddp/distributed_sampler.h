// Which samples a rank sees in an epoch: exactly those of torch.utils.data.DistributedSampler.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/data/sampler.h"

namespace ddp {

struct DistributedSamplerOptions {
  std::int64_t samples = 0;  // of the whole data set
  bool shuffle = true;
  std::uint64_t seed = 0;
  // Leave out the tail that does not divide by the number of ranks; else samples of the beginning
  // are seen twice.
  bool drop_last = false;
  // Nothing = those of the process group.
  std::optional<int> ranks = std::nullopt;
  std::optional<int> rank = std::nullopt;
};

// Needs no other rank: may be called by any thread, one at a time.
class DistributedSampler {
 public:
  // Error(kConfig) if there are no samples, or the rank is none of the ranks.
  explicit DistributedSampler(const DistributedSamplerOptions& options);

  // Draws the order of an epoch, a function of seed + epoch: call it before every epoch. It starts
  // in epoch 0.
  void SetEpoch(std::int64_t epoch) { sampler_.SetEpoch(epoch); }
  // This rank's samples, in order. Valid until the next SetEpoch.
  std::span<const std::int64_t> indices() const { return sampler_.indices(); }
  // How many each rank sees in an epoch: the same on all ranks.
  std::int64_t size() const { return sampler_.size(); }

 private:
  rt::data::DistributedSampler sampler_;
};

// For evaluation: this rank's part [begin, end) of the samples, without padding, so that every
// sample counts once whatever the number of ranks.
rt::data::Slice EvaluationSlice(std::int64_t samples);

}  // namespace ddp
