#include "runtime/data/augment.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace ddp::rt::data {
namespace {

constexpr ImageShape kShape{.rows = 28, .columns = 28};
constexpr size_t kPixels = 28 * 28;

std::vector<uint8_t> Square() {
  std::vector<uint8_t> image(kPixels, 0);
  for (size_t row = 10; row < 18; ++row) {
    for (size_t column = 10; column < 18; ++column) {
      image[row * 28 + column] = 200;
    }
  }
  return image;
}

std::vector<float> Distorted(const Augmentation& how, uint64_t seed, int64_t epoch,
                             int64_t sample) {
  std::vector<float> out(kPixels);
  Augment(how, seed, epoch, sample, kShape, Square(), out);
  return out;
}

TEST(Augment, WithoutDistortionIsTheImage) {
  const auto image = Square();
  const auto out = Distorted({}, 1, 2, 3);
  for (size_t i = 0; i < image.size(); ++i) {
    ASSERT_NEAR(out[i], image[i], 1e-3) << i;
  }
}

TEST(Augment, IsAFunctionOfSeedEpochAndSample) {
  const Augmentation how{.rotate_degrees = 10, .scale = 0.1, .shift_pixels = 2};
  const auto out = Distorted(how, 1, 2, 3);
  EXPECT_EQ(out, Distorted(how, 1, 2, 3));
  EXPECT_NE(out, Distorted(how, 2, 2, 3));
  EXPECT_NE(out, Distorted(how, 1, 3, 3));
  EXPECT_NE(out, Distorted(how, 1, 2, 4));
}

TEST(Augment, KeepsTheMassOfACentredShape) {
  const Augmentation how{.rotate_degrees = 15, .shift_pixels = 2};
  for (int sample = 0; sample < 100; ++sample) {
    const auto out = Distorted(how, 7, 0, sample);
    EXPECT_NEAR(std::accumulate(out.begin(), out.end(), 0.0), 64 * 200, 64 * 200 * 0.05);
  }
}

TEST(Augment, FlipsAboutEveryOtherSample) {
  std::vector<uint8_t> image(kPixels, 0);
  image[5 * 28 + 3] = 100;
  int flipped = 0;
  for (int sample = 0; sample < 100; ++sample) {
    std::vector<float> out(kPixels);
    Augment({.flip = true}, 1, 0, sample, kShape, image, out);
    EXPECT_NEAR(out[5 * 28 + 3] + out[5 * 28 + 24], 100, 1e-3);
    flipped += out[5 * 28 + 24] > 50 ? 1 : 0;
  }
  EXPECT_GT(flipped, 30);
  EXPECT_LT(flipped, 70);
}

TEST(Augment, TreatsChannelsAlike) {
  std::vector<uint8_t> image = Square();
  image.insert(image.end(), image.begin(), image.begin() + static_cast<int64_t>(kPixels));
  std::vector<float> out(2 * kPixels);
  Augment({.rotate_degrees = 10}, 1, 2, 3, {.rows = 28, .columns = 28, .channels = 2}, image, out);
  const auto one = Distorted({.rotate_degrees = 10}, 1, 2, 3);
  EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + static_cast<int64_t>(kPixels)), one);
  EXPECT_EQ(std::vector<float>(out.begin() + static_cast<int64_t>(kPixels), out.end()), one);
}

}  // namespace
}  // namespace ddp::rt::data
