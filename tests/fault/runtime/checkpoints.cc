#include "tests/fault/runtime/checkpoints.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace ddp::rt {

checkpoint::Loaded Newest(const Job& job) {
  auto loaded =
      checkpoint::CheckpointFolder(job.checkpoints(), 2).LoadNewest({.rank = 0, .world_size = 0});
  EXPECT_TRUE(loaded) << "no checkpoint in " << job.checkpoints();
  return std::move(loaded.value());
}

float MaxDifference(const checkpoint::Loaded& a, const checkpoint::Loaded& b) {
  float most = 0;
  EXPECT_EQ(a.model.size(), b.model.size());
  for (size_t i = 0; i < std::min(a.model.size(), b.model.size()); ++i) {
    const auto& left = a.model[i];
    const auto& right = b.model[i];
    EXPECT_EQ(left.name, right.name);
    EXPECT_EQ(left.elements.size(), right.elements.size()) << left.name;
    if (left.elements.size() != right.elements.size()) {
      continue;
    }
    if (left.type != checkpoint::DType::kF32) {
      EXPECT_EQ(std::memcmp(left.elements.data(), right.elements.data(), left.elements.size()), 0)
          << left.name;
      continue;
    }
    for (size_t at = 0; at < left.elements.size(); at += sizeof(float)) {
      float x = 0;
      float y = 0;
      std::memcpy(&x, left.elements.data() + at, sizeof(float));
      std::memcpy(&y, right.elements.data() + at, sizeof(float));
      most = std::max(most, std::abs(x - y));
    }
  }
  return most;
}

}  // namespace ddp::rt
