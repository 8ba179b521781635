#include "runtime/data/images.h"

#include <gtest/gtest.h>

namespace ddp::rt::data {
namespace {

ImageDataset Tiny() {
  return {{.count = 3,
           .rows = 1,
           .columns = 2,
           .pixels = {0, 255, 10, 20, 30, 40},
           .labels = {5, 6, 7}},
          10,
          {}};
}

TEST(ImageDataset, NormalisesAndKeepsTheOrder) {
  const std::vector<int64_t> samples = {2, 0};
  const Batch batch = Tiny().Make(samples, nullptr);
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{2, 1, 1, 2}));
  EXPECT_EQ(batch.labels.const_data_ptr<int64_t>()[0], 7);
  EXPECT_EQ(batch.labels.const_data_ptr<int64_t>()[1], 5);
  const auto* pixels = batch.inputs.const_data_ptr<float>();
  EXPECT_NEAR(pixels[0], (30 / 255.0 - 0.1307) / 0.3081, 1e-6);
  EXPECT_NEAR(pixels[2], -0.1307 / 0.3081, 1e-6);
  EXPECT_NEAR(pixels[3], (1 - 0.1307) / 0.3081, 1e-6);
}

TEST(ImageDataset, NormalisesEachChannelByItsOwn) {
  const ImageDataset set({.count = 1,
                          .rows = 1,
                          .columns = 1,
                          .channels = 2,
                          .pixels = {51, 102},
                          .labels = {0},
                          .mean = {0.1F, 0.2F},
                          .deviation = {0.5F, 0.1F}},
                         10, {});
  const std::vector<int64_t> samples = {0};
  const Batch batch = set.Make(samples, nullptr);
  EXPECT_NEAR(batch.inputs.const_data_ptr<float>()[0], 0.2, 1e-6);
  EXPECT_NEAR(batch.inputs.const_data_ptr<float>()[1], 2, 1e-5);
  EXPECT_EQ(set.shape().channels, 2);
}

TEST(ImageDataset, DistortsForTrainingOnly) {
  const ImageDataset set({.count = 1, .rows = 1, .columns = 2, .pixels = {0, 255}, .labels = {0}},
                         10, {.shift_pixels = 5});
  const std::vector<int64_t> samples = {0};
  const Draw draw{.seed = 1, .epoch = 2};
  EXPECT_TRUE(set.Make(samples, nullptr).inputs.equal(set.Make(samples, nullptr).inputs));
  EXPECT_TRUE(set.Make(samples, &draw).inputs.equal(set.Make(samples, &draw).inputs));
  EXPECT_FALSE(set.Make(samples, &draw).inputs.equal(set.Make(samples, nullptr).inputs));
}

}  // namespace
}  // namespace ddp::rt::data
