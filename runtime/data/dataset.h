// What a training loop needs of data, whatever it is: how many samples there are, and tensors of
// some of them. Data sets are read (or mapped) and checked at start, and const from then on, so
// loader threads share them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ddp::rt::data {

struct Batch {
  at::Tensor
      inputs;  // images: float [batch, channels, rows, columns]; tokens: int64 [batch, length]
  at::Tensor labels;  // int64: [batch], or one for each token
};

// Of random distortions in training: what happens to a sample is a function of these and the
// sample's number alone.
struct Draw {
  uint64_t seed = 0;
  int64_t epoch = 0;
};

// What a model must know of it.
struct DataShape {
  int64_t channels = 0;  // 0 = tokens
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t classes = 0;  // of images, or how many different tokens there are

  bool tokens() const { return channels == 0; }
};

class Dataset {
 public:
  Dataset() = default;
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual int64_t size() const = 0;  // samples
  virtual int64_t labels_per_sample() const = 0;
  virtual DataShape shape() const = 0;
  // Tensors of the samples with these numbers, on the CPU, contiguous. `draw` null: as they are.
  // Error(kData) if a sample turns out to be damaged.
  virtual Batch Make(std::span<const int64_t> samples, const Draw* draw) const = 0;
};

// For a training run.
struct Datasets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
  std::vector<int32_t> alphabet;  // of text: the character (code point) that each token stands for
};

}  // namespace ddp::rt::data
