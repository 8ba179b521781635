// Images with one label each, held in memory as bytes: what IDX (MNIST) and CIFAR-10 files contain.
// Thread-safe: const.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/augment.h"
#include "runtime/data/dataset.h"

namespace ddp::rt::data {

struct ImageSet {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t channels = 1;
  std::vector<uint8_t> pixels = {};  // count × channels × rows × columns
  std::vector<uint8_t> labels = {};  // count, each below the number of classes
  // Of pixels from 0 to 1, a channel each: what is subtracted, and divided by.
  std::vector<float> mean = {0.1307F};  // of MNIST's training pixels, as everybody uses them
  std::vector<float> deviation = {0.3081F};

  std::span<const uint8_t> image(int64_t index) const {
    const auto size = static_cast<size_t>(channels * rows * columns);
    return std::span(pixels).subspan(static_cast<size_t>(index) * size, size);
  }
};

class ImageDataset final : public Dataset {
 public:
  // Images for training are distorted as `how` says.
  ImageDataset(ImageSet set, int classes, const Augmentation& how);

  int64_t size() const override { return set_.count; }
  int64_t labels_per_sample() const override { return 1; }
  DataShape shape() const override {
    return {
        .channels = set_.channels, .rows = set_.rows, .columns = set_.columns, .classes = classes_};
  }
  Batch Make(std::span<const int64_t> samples, const Draw* draw) const override;

 private:
  const ImageSet set_;
  const int classes_;
  const Augmentation how_;
};

}  // namespace ddp::rt::data
