#include "runtime/ddp/uneven_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "runtime/base/error.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp::rt {

UnevenInputs::UnevenInputs(DataParallel& engine, UnevenInputsOptions options)
    : engine_(engine), options_(options) {}

UnevenInputs::~UnevenInputs() { engine_.SetDivisor(engine_.group().world_size()); }

bool UnevenInputs::Next(bool has_batch) {
  const auto have = GatherInts(engine_.group(), has_batch ? 1 : 0, "ranks with a batch");
  without_.clear();
  for (std::size_t rank = 0; rank < have.size(); ++rank) {
    if (have[rank] == 0) {
      without_.push_back(rank);
    }
  }
  active_ = static_cast<int>(have.size() - without_.size());
  const bool stop = options_.when == UnevenInputsOptions::When::kStopAll && !without_.empty();
  has_batch_ = has_batch && !stop;
  if (active_ == 0 || stop) {
    return false;
  }
  if (options_.divide_by_active) {
    engine_.SetDivisor(active_);
  }
  batches_ += has_batch ? 1 : 0;
  ++steps_;
  return true;
}

std::vector<std::int64_t> UnevenInputs::BatchesOfRanks() {
  return GatherInts(engine_.group(), batches_, "batches of each rank");
}

std::string UnevenInputs::Describe() {
  const auto batches = BatchesOfRanks();
  if (active_ > 0) {  // stopped: all used the same number, and some had more
    return fmt::format(
        "uneven inputs: rank(s) {} had no more batches after {} steps, so all ranks ended",
        fmt::join(without_, ", "), steps_);
  }
  const auto [least, most] = std::minmax_element(batches.begin(), batches.end());
  if (*least == *most) {
    return fmt::format("all {} ranks had {} batches", batches.size(), *most);
  }
  std::map<std::int64_t, std::vector<std::size_t>, std::greater<>> ranks_by_batches;
  for (std::size_t rank = 0; rank < batches.size(); ++rank) {
    ranks_by_batches[batches[rank]].push_back(rank);
  }
  std::vector<std::string> parts;
  parts.reserve(ranks_by_batches.size());
  for (const auto& [count, ranks] : ranks_by_batches) {
    parts.push_back(fmt::format("rank(s) {} had {} batches", fmt::join(ranks, ", "), count));
  }
  return fmt::format("uneven inputs: {}; all ranks took {} steps, those without a batch with zeros",
                     fmt::join(parts, ", "), steps_);
}

double SumToMeanFactor(comm::ProcessGroup& group, std::int64_t samples_here) {
  const std::int64_t all = SumInts(group, samples_here, "samples of this step");
  if (all <= 0) {
    throw Error(ExitCode::kSoftware, "no rank has a sample in this step: it has no mean");
  }
  return static_cast<double>(group.world_size()) / static_cast<double>(all);
}

}  // namespace ddp::rt
