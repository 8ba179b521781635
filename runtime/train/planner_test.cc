#include "runtime/train/planner.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/data/sampler.h"

namespace ddp::rt::train {
namespace {

constexpr int64_t kBatch = 12;

Planner MakePlanner(int64_t samples, int ranks, int rank, const Walk& walk,
                    int64_t accumulate = 1) {
  return Planner({.samples = samples,
                  .ranks = ranks,
                  .rank = rank,
                  .batch = kBatch,
                  .accumulate = accumulate,
                  .seed = 5},
                 walk);
}

// All ranks' samples of the next `steps` steps, and the walk moved on by as many.
void TakeSteps(int64_t samples, int ranks, int64_t steps, Walk& walk,
               std::map<int64_t, int>& seen) {
  std::vector<Planner> planners;
  for (int rank = 0; rank < ranks; ++rank) {
    planners.push_back(MakePlanner(samples, ranks, rank, walk));
  }
  for (int64_t step = 0; step < steps && !walk.done(); ++step) {
    int64_t together = 0;
    for (Planner& planner : planners) {
      const auto plan = planner.Next();
      ASSERT_TRUE(plan);
      EXPECT_EQ(plan->step, walk.at().step);
      for (const int64_t sample : plan->samples) {
        ++seen[sample];
        ++together;
      }
    }
    EXPECT_EQ(together, walk.end() - walk.at().cursor);
    walk.Advance();
  }
}

TEST(Planner, SeesEachSampleOnceAnEpochWhateverTheRanks) {
  for (const int64_t samples : {48, 100, 7, 1797}) {
    SCOPED_TRACE(samples);
    Walk walk(samples, kBatch, 3, 0, {});
    std::map<int64_t, int> seen;
    // From 4 ranks to 3 and back, in the middle of epochs.
    const int64_t third = walk.total_steps() / 3 + 1;
    for (const int ranks : {4, 3, 4}) {
      Walk resumed(samples, kBatch, 3, 0, walk.at());
      TakeSteps(samples, ranks, third, resumed, seen);
      walk = resumed;
    }
    EXPECT_TRUE(walk.done());
    EXPECT_EQ(static_cast<int64_t>(seen.size()), samples);
    for (const auto& [sample, times] : seen) {
      EXPECT_EQ(times, 3) << sample;
    }
  }
}

TEST(Planner, DealsAsTheDistributedSampler) {
  constexpr int64_t kSamples = 48;
  for (int rank = 0; rank < 4; ++rank) {
    data::DistributedSampler sampler({.samples = kSamples, .ranks = 4, .rank = rank, .seed = 5});
    sampler.SetEpoch(1);
    Walk walk(kSamples, kBatch, 2, 0, {.step = 4, .epoch = 1});
    Planner planner = MakePlanner(kSamples, 4, rank, walk);
    std::vector<int64_t> all;
    while (const auto plan = planner.Next()) {
      all.insert(all.end(), plan->samples.begin(), plan->samples.end());
    }
    EXPECT_EQ(all, std::vector<int64_t>(sampler.indices().begin(), sampler.indices().end()));
  }
}

TEST(Planner, GivesAllRanksAsManyParts) {
  const Walk walk(5, kBatch, 1, 0, {});
  for (int rank = 0; rank < 3; ++rank) {
    const auto plan = MakePlanner(5, 3, rank, walk, 4).Next();
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->part, 1);
    EXPECT_EQ(plan->parts, 2);
    EXPECT_EQ(plan->total, 5);
    EXPECT_EQ(plan->samples.size(), rank == 2 ? 1U : 2U);
  }
}

}  // namespace
}  // namespace ddp::rt::train
