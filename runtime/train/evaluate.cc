#include "runtime/train/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>
#include <array>

#include "runtime/base/error.h"
#include "runtime/data/batch.h"
#include "runtime/data/sampler.h"

namespace ddp::rt::train {
namespace {

constexpr int64_t kBatch = 250;

}  // namespace

Evaluation Evaluate(const Model& model, const data::ImageSet& set, comm::ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  const data::Slice slice = data::EvaluationSlice(set.count, group.world_size(), group.rank());
  enum { kCorrect, kCount, kLoss };
  std::array<double, 3> sums{};
  for (int64_t begin = slice.begin; begin < slice.end; begin += kBatch) {
    const int64_t end = std::min(begin + kBatch, slice.end);
    const data::Batch batch = data::MakeBatch(set, begin, end);
    const at::Tensor scores = model.Forward(batch.images);
    const auto size = static_cast<double>(end - begin);
    sums[kCorrect] += at::argmax(scores, 1).eq(batch.labels).sum().item<double>();
    sums[kLoss] += at::cross_entropy_loss(scores, batch.labels).item<double>() * size;
    sums[kCount] += size;
  }
  group
      .AllReduce(sums.data(), sums.size(), comm::DataType::kF64, comm::ReduceOp::kSum,
                 {.name = "evaluation"})
      ->Wait();
  DDP_RT_CHECK(sums[kCount] == static_cast<double>(set.count), "every sample is evaluated once");
  return {.correct = static_cast<int64_t>(sums[kCorrect]),
          .count = set.count,
          .loss = sums[kLoss] / sums[kCount]};
}

}  // namespace ddp::rt::train
