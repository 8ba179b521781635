#include "runtime/train/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/sampler.h"
#include "runtime/train/precision.h"

namespace ddp::rt::train {
namespace {

constexpr int64_t kImages = 250;  // at once
constexpr int64_t kTokens = 2048;

}  // namespace

Evaluation Evaluate(const RunContext& run, Model& model, const data::Dataset& set) {
  const at::NoGradGuard no_grad;
  const data::Slice slice =
      data::EvaluationSlice(set.size(), run.group.world_size(), run.group.rank());
  const int64_t at_once =
      set.shape().tokens() ? std::max<int64_t>(1, kTokens / set.labels_per_sample()) : kImages;
  enum { kCorrect, kCount, kLoss };
  std::array<double, 3> sums{};
  for (int64_t begin = slice.begin; begin < slice.end; begin += at_once) {
    std::vector<int64_t> samples(static_cast<size_t>(std::min(at_once, slice.end - begin)));
    std::iota(samples.begin(), samples.end(), begin);
    const data::Batch batch = set.Make(samples, nullptr);
    const at::Tensor labels = batch.labels.to(run.device).flatten();
    const Precision precision(run.config.train.precision, run.device);
    const at::Tensor scores =
        model.Forward(batch.inputs.to(run.device), /*training=*/false).flatten(0, -2);
    const auto count = static_cast<double>(labels.numel());
    sums[kCorrect] += at::argmax(scores, 1).eq(labels).sum().item<double>();
    sums[kLoss] += at::cross_entropy_loss(scores, labels).item<double>() * count;
    sums[kCount] += count;
  }
  run.group
      .AllReduce(
          sums.data(), sums.size(), comm::DataType::kF64, comm::ReduceOp::kSum,
          {.name = "evaluation",
           .timeout = std::chrono::seconds(run.config.distributed.evaluation_timeout_seconds)})
      ->Wait();
  const int64_t count = set.size() * set.labels_per_sample();
  DDP_RT_CHECK(sums[kCount] == static_cast<double>(count), "every sample is evaluated once");
  return {.correct = static_cast<int64_t>(sums[kCorrect]),
          .count = count,
          .loss = sums[kLoss] / sums[kCount]};
}

}  // namespace ddp::rt::train
