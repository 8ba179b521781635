#include "runtime/data/seed.h"

#include <gtest/gtest.h>

#include <set>

namespace ddp::rt::data {
namespace {

TEST(MixAll, GivesEachRankStepPartAndSeedItsOwn) {
  std::set<uint64_t> seen;
  size_t all = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    for (uint64_t step = 0; step < 50; ++step) {
      for (uint64_t rank = 0; rank < 8; ++rank) {
        for (uint64_t part = 0; part < 3; ++part) {
          seen.insert(MixAll({seed, step, rank, part}));
          ++all;
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), all);
}

}  // namespace
}  // namespace ddp::rt::data
