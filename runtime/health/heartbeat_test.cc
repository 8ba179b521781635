#include "runtime/health/heartbeat.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/store/hash_store.h"

namespace ddp::rt::health {
namespace {

TEST(Beat, RoundTrips) {
  const auto beat = ParseBeat(FormatBeat({.step = 7,
                                          .time = 1.7e9 + 0.25,
                                          .wait_seconds = 1e-7,
                                          .busy_seconds = 3.5,
                                          .phase = train::Phase::kSaving}));
  ASSERT_TRUE(beat);
  EXPECT_EQ(beat->step, 7);
  EXPECT_EQ(beat->time, 1.7e9 + 0.25);
  EXPECT_EQ(beat->wait_seconds, 1e-7);
  EXPECT_EQ(beat->busy_seconds, 3.5);
  EXPECT_EQ(beat->phase, train::Phase::kSaving);
  for (const char* bad :
       {"", "1", "1 2 3", "1 2 x 4 1", "1 2 3 4 1 1", "a 2 3 4 1", "1 2 3 4 5", "1 2 3 4 -1"}) {
    EXPECT_FALSE(ParseBeat(bad)) << bad;
  }
}

std::vector<std::optional<Beat>> Waits(const std::vector<double>& seconds) {
  std::vector<std::optional<Beat>> beats(seconds.size());
  std::transform(seconds.begin(), seconds.end(), beats.begin(), [](double wait) {
    return Beat{1, 1, wait};
  });
  return beats;
}

TEST(SlowestRank, IsTheOneThatWaitsLeast) {
  SlowestRank slowest;
  slowest.Update(Waits({100, 1, 100}));
  EXPECT_EQ(slowest.rank(), -1) << "what was before is not known";
  slowest.Update(Waits({100.5, 1.5, 100.01}));
  EXPECT_EQ(slowest.rank(), 2);
  // Another one becomes slow.
  double now = 101;
  for (int round = 0; round < 10; ++round, now += 0.5) {
    slowest.Update(Waits({now, 1.5, now}));
  }
  EXPECT_EQ(slowest.rank(), 1);
}

TEST(SlowestRank, IsNoneWhenAllAreAlike) {
  SlowestRank slowest;
  slowest.Update(Waits({0, 0}));
  slowest.Update(Waits({0.5, 0.51}));
  EXPECT_EQ(slowest.rank(), -1);
  slowest.Update({});
  EXPECT_EQ(slowest.rank(), -1);
}

TEST(Whereabouts, OfFewRanksAllAreTold) {
  EXPECT_EQ(Whereabouts({Beat{7, 100, 0, 0, train::Phase::kTraining}, std::nullopt,
                         Beat{6, 91, 0, 0, train::Phase::kEvaluating}},
                        100.25),
            "rank 0: step 7, training, heard of 0.2 s ago; rank 1: never heard of; "
            "rank 2: step 6, evaluating, heard of 9.2 s ago (silent)");
}

TEST(Whereabouts, OfManyOnlyThoseThatStandOut) {
  std::vector<std::optional<Beat>> beats(100, Beat{7, 100, 0, 0, train::Phase::kTraining});
  beats[42]->step = 6;
  EXPECT_EQ(Whereabouts(beats, 100),
            "rank 42: step 6, training, heard of 0.0 s ago; 99 ranks at step 7");
}

TEST(Heartbeat, RankZeroKnowsAllRanks) {
  store::HashStore store;
  train::Board first;
  train::Board second;
  second.step = 41;
  Heartbeat one(store, 1, 2, second, std::chrono::hours(1));
  one.Stop();
  Heartbeat zero(store, 0, 2, first, std::chrono::hours(1));
  zero.Stop();
  const auto ranks = zero.ranks();
  ASSERT_EQ(ranks.beats.size(), 2U);
  ASSERT_TRUE(ranks.beats[1]);
  EXPECT_EQ(ranks.beats[1]->step, 41);
  EXPECT_TRUE(one.ranks().beats.empty());
}

}  // namespace
}  // namespace ddp::rt::health
