// Makes tensors of samples: images as float [batch, 1, rows, columns], normalised, labels as int64.
// Distorting and normalising an image costs a few microseconds, a hundredth of its training step on
// the same core, so it is done where it is needed and no thread prefetches. Thread-safe: const.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "runtime/data/augment.h"
#include "runtime/data/idx.h"

namespace ddp::rt::data {

struct Batch {
  at::Tensor images;
  at::Tensor labels;
};

// For training: each image distorted as `how` says.
Batch MakeBatch(const ImageSet& set, std::span<const int64_t> indices, const Augmentation& how,
                uint64_t seed, int64_t epoch);

// For evaluation: the images [begin, end) as they are.
Batch MakeBatch(const ImageSet& set, int64_t begin, int64_t end);

}  // namespace ddp::rt::data
