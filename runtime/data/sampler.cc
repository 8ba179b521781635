#include "runtime/data/sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include <numeric>

#include "runtime/base/error.h"

namespace ddp::rt::data {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t SamplesPerRank(const SamplerOptions& o) {
  if (o.drop_last && o.samples % o.ranks != 0) {
    // For fewer samples than ranks Python's ceil of a negative fraction is zero.
    return o.samples < o.ranks ? 0 : CeilDiv(o.samples - o.ranks, o.ranks);
  }
  return CeilDiv(o.samples, o.ranks);
}

}  // namespace

std::vector<int64_t> EpochOrder(int64_t samples, bool shuffle, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(samples));
  if (!shuffle) {
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  const auto generator = at::detail::createCPUGenerator(seed + static_cast<uint64_t>(epoch));
  const at::Tensor permutation = at::randperm(samples, generator, at::kLong);
  const auto* first = permutation.const_data_ptr<int64_t>();
  order.assign(first, first + samples);
  return order;
}

DistributedSampler::DistributedSampler(const SamplerOptions& options)
    : options_(options), size_(SamplesPerRank(options)) {
  DDP_RT_CHECK(options.samples > 0 && options.ranks > 0, "a sampler needs samples and ranks");
  DDP_RT_CHECK(options.rank >= 0 && options.rank < options.ranks, "rank out of range");
  SetEpoch(0);
}

void DistributedSampler::SetEpoch(int64_t epoch) {
  const auto order = EpochOrder(options_.samples, options_.shuffle, options_.seed, epoch);
  indices_.resize(static_cast<size_t>(size_));
  // Padding repeats the order from its start, as often as needed: index modulo N.
  for (size_t i = 0; i < indices_.size(); ++i) {
    const size_t position =
        i * static_cast<size_t>(options_.ranks) + static_cast<size_t>(options_.rank);
    indices_[i] = order[position % order.size()];
  }
}

Slice EvaluationSlice(int64_t samples, int ranks, int rank) {
  return {.begin = samples * rank / ranks, .end = samples * (rank + 1) / ranks};
}

}  // namespace ddp::rt::data
