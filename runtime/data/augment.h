// Small random distortions of an image: rotation, scale, shift and flip in one affine map with
// bilinear sampling. What happens to a sample is a function of (seed, epoch, sample) alone, so it
// depends neither on the rank that sees it nor on the number of ranks, and a resumed run repeats
// it.
#pragma once

#include <cstdint>
#include <span>

namespace ddp::rt::data {

struct Augmentation {
  double rotate_degrees = 0;  // at most this much either way
  double scale = 0;           // 0.1: between 0.9 and 1.1 times
  double shift_pixels = 0;    // at most this much in each direction
  bool flip = false;          // left and right, every other time

  bool enabled() const { return rotate_degrees > 0 || scale > 0 || shift_pixels > 0 || flip; }
};

struct ImageShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t channels = 1;
};

// Writes the distorted image, values from 0 to 255, to `out` (channels × rows × columns, all
// channels alike). Outside is black.
void Augment(const Augmentation& how, uint64_t seed, int64_t epoch, int64_t sample,
             ImageShape shape, std::span<const uint8_t> in, std::span<float> out);

}  // namespace ddp::rt::data
