#include "runtime/data/batch.h"

#include <gtest/gtest.h>

namespace ddp::rt::data {
namespace {

ImageSet Tiny() {
  return {
      .count = 3, .rows = 1, .columns = 2, .pixels = {0, 255, 10, 20, 30, 40}, .labels = {5, 6, 7}};
}

TEST(MakeBatch, NormalisesAndKeepsTheOrder) {
  const std::vector<int64_t> indices = {2, 0};
  const Batch batch = MakeBatch(Tiny(), indices, {}, 0, 0);
  EXPECT_EQ(batch.images.sizes(), (std::vector<int64_t>{2, 1, 1, 2}));
  EXPECT_EQ(batch.labels.const_data_ptr<int64_t>()[0], 7);
  EXPECT_EQ(batch.labels.const_data_ptr<int64_t>()[1], 5);
  const auto* pixels = batch.images.const_data_ptr<float>();
  EXPECT_NEAR(pixels[0], (30 / 255.0 - 0.1307) / 0.3081, 1e-6);
  EXPECT_NEAR(pixels[2], -0.1307 / 0.3081, 1e-6);
  EXPECT_NEAR(pixels[3], (1 - 0.1307) / 0.3081, 1e-6);
}

TEST(MakeBatch, TakesARange) {
  const Batch batch = MakeBatch(Tiny(), 1, 3);
  EXPECT_EQ(batch.images.size(0), 2);
  EXPECT_EQ(batch.labels.const_data_ptr<int64_t>()[0], 6);
}

}  // namespace
}  // namespace ddp::rt::data
