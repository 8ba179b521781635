#include "runtime/data/images.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"

namespace ddp::rt::data {

ImageDataset::ImageDataset(ImageSet set, int classes, const Augmentation& how)
    : set_(std::move(set)), classes_(classes), how_(how) {
  DDP_RT_CHECK(set_.mean.size() == static_cast<size_t>(set_.channels) &&
                   set_.deviation.size() == set_.mean.size(),
               "a mean and a deviation for each channel");
}

Batch ImageDataset::Make(std::span<const int64_t> samples, const Draw* draw) const {
  const auto count = static_cast<int64_t>(samples.size());
  Batch batch{.inputs = at::empty({count, set_.channels, set_.rows, set_.columns}, at::kFloat),
              .labels = at::empty({count}, at::kLong)};
  const auto plane = static_cast<size_t>(set_.rows * set_.columns);
  const size_t size = plane * static_cast<size_t>(set_.channels);
  auto* pixels = batch.inputs.mutable_data_ptr<float>();
  auto* labels = batch.labels.mutable_data_ptr<int64_t>();
  for (const int64_t sample : samples) {
    const std::span<float> out(pixels, size);
    const auto image = set_.image(sample);
    if (draw != nullptr && how_.enabled()) {
      Augment(how_, draw->seed, draw->epoch, sample, {set_.rows, set_.columns, set_.channels},
              image, out);
    } else {
      std::copy(image.begin(), image.end(), out.begin());
    }
    for (size_t channel = 0; channel < set_.mean.size(); ++channel) {
      const float scale = 1 / (255 * set_.deviation[channel]);
      const float offset = -set_.mean[channel] / set_.deviation[channel];
      const auto part = out.subspan(channel * plane, plane);
      std::transform(part.begin(), part.end(), part.begin(),
                     [=](float value) { return value * scale + offset; });
    }
    *labels++ = set_.labels[static_cast<size_t>(sample)];
    pixels += size;
  }
  return batch;
}

}  // namespace ddp::rt::data
