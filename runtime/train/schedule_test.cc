#include "runtime/train/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::rt::train {
namespace {

TEST(LearningRate, WarmsUpThenStaysOrFalls) {
  const OptimizerConfig optimizer{.learning_rate = 0.1};
  const ScheduleConfig constant{.name = "constant", .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, constant, 0, 100), 0.02);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, constant, 3, 100), 0.08);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, constant, 4, 100), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, constant, 99, 100), 0.1);
  const ScheduleConfig cosine{.name = "cosine", .warmup_steps = 0};
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, cosine, 0, 100), 0.1);
  EXPECT_NEAR(LearningRate(optimizer, cosine, 50, 100), 0.05, 1e-12);
  EXPECT_NEAR(LearningRate(optimizer, cosine, 100, 100), 0, 1e-12);
  const ScheduleConfig floor{.name = "cosine", .floor = 0.1};
  EXPECT_NEAR(LearningRate(optimizer, floor, 0, 100), optimizer.learning_rate, 1e-12);
  EXPECT_NEAR(LearningRate(optimizer, floor, 100, 100), 0.1 * optimizer.learning_rate, 1e-12);
}

struct Seen {
  int64_t step, epoch, begin, end;
  bool last;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> All(Walk walk) {
  std::vector<Seen> seen;
  while (!walk.done()) {
    const auto& at = walk.at();
    seen.push_back({at.step, at.epoch, at.cursor, walk.end(), walk.LastOfEpoch()});
    walk.Advance();
  }
  return seen;
}

TEST(Walk, TakesEverySampleOfEveryEpoch) {
  EXPECT_EQ(All(Walk(5, 2, 2, 0, {})), (std::vector<Seen>{{0, 0, 0, 2, false},
                                                          {1, 0, 2, 4, false},
                                                          {2, 0, 4, 5, true},
                                                          {3, 1, 0, 2, false},
                                                          {4, 1, 2, 4, false},
                                                          {5, 1, 4, 5, true}}));
}

TEST(Walk, ResumesAnywhere) {
  const auto all = All(Walk(5, 2, 3, 0, {}));
  Walk walk(5, 2, 3, 0, {});
  for (size_t i = 0; i <= all.size(); ++i) {
    const Walk resumed(5, 2, 3, 0, walk.at());
    EXPECT_EQ(resumed.total_steps(), 9);
    EXPECT_EQ(All(resumed), std::vector<Seen>(all.begin() + static_cast<int64_t>(i), all.end()));
    if (!walk.done()) {
      walk.Advance();
    }
  }
}

TEST(Walk, StopsAtMaxStepsWithinAnEpoch) {
  const auto seen = All(Walk(5, 2, 3, 2, {}));
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_TRUE(seen[1].last);
}

TEST(Walk, GoesOnWithOtherSizes) {
  const Walk walk(6, 4, 2, 0, {.step = 10, .epoch = 1, .cursor = 4});
  EXPECT_EQ(walk.total_steps(), 11);
  EXPECT_EQ(walk.end(), 6);
  // With data.dropLast now, the rest of the epoch is left out.
  const Walk past(4, 4, 2, 0, {.step = 10, .epoch = 0, .cursor = 4});
  EXPECT_EQ(past.at().epoch, 1);
  EXPECT_EQ(past.total_steps(), 11);
}

}  // namespace
}  // namespace ddp::rt::train
