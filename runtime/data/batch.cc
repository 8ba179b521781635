#include "runtime/data/batch.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace ddp::rt::data {
namespace {

// Mean and standard deviation of MNIST's training pixels, as everybody uses them.
constexpr float kMean = 0.1307F;
constexpr float kDeviation = 0.3081F;
constexpr float kScale = 1 / (255 * kDeviation);
constexpr float kOffset = -kMean / kDeviation;

}  // namespace

Batch MakeBatch(const ImageSet& set, std::span<const int64_t> indices, const Augmentation& how,
                uint64_t seed, int64_t epoch) {
  const auto count = static_cast<int64_t>(indices.size());
  Batch batch{.images = at::empty({count, 1, set.rows, set.columns}, at::kFloat),
              .labels = at::empty({count}, at::kLong)};
  const auto size = static_cast<size_t>(set.rows * set.columns);
  auto* pixels = batch.images.mutable_data_ptr<float>();
  auto* labels = batch.labels.mutable_data_ptr<int64_t>();
  for (const int64_t index : indices) {
    const std::span<float> out(pixels, size);
    const auto image = set.image(index);
    if (how.enabled()) {
      Augment(how, seed, epoch, index, {set.rows, set.columns}, image, out);
    } else {
      std::copy(image.begin(), image.end(), out.begin());
    }
    std::transform(out.begin(), out.end(), out.begin(),
                   [](float value) { return value * kScale + kOffset; });
    *labels++ = set.labels[static_cast<size_t>(index)];
    pixels += size;
  }
  return batch;
}

Batch MakeBatch(const ImageSet& set, int64_t begin, int64_t end) {
  std::vector<int64_t> indices(static_cast<size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return MakeBatch(set, indices, Augmentation{}, 0, 0);
}

}  // namespace ddp::rt::data
