#include "ddp/distributed_sampler.h"

#include <fmt/format.h>

#include "ddp/error.h"
#include "ddp/process_group.h"

namespace ddp {
namespace {

rt::data::SamplerOptions Checked(const DistributedSamplerOptions& options) {
  const rt::data::SamplerOptions checked{
      .samples = options.samples,
      .ranks = options.ranks ? *options.ranks : WorldSize(),
      .rank = options.rank ? *options.rank : Rank(),
      .shuffle = options.shuffle,
      .seed = options.seed,
      .drop_last = options.drop_last,
  };
  if (checked.samples <= 0 || checked.rank < 0 || checked.rank >= checked.ranks) {
    throw Error(ExitCode::kConfig,
                fmt::format("DistributedSampler: {} samples for rank {} of {} ranks: give it at "
                            "least one sample, and a rank below the number of ranks",
                            checked.samples, checked.rank, checked.ranks));
  }
  return checked;
}

}  // namespace

DistributedSampler::DistributedSampler(const DistributedSamplerOptions& options)
    : sampler_(Checked(options)) {}

rt::data::Slice EvaluationSlice(std::int64_t samples) {
  return rt::data::EvaluationSlice(samples, WorldSize(), Rank());
}

}  // namespace ddp
