#include "runtime/health/heartbeat.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/store/hash_store.h"

namespace ddp::rt::health {
namespace {

TEST(Beat, RoundTrips) {
  const auto beat = ParseBeat(FormatBeat({.step = 7, .time = 1.7e9 + 0.25, .wait_seconds = 1e-7}));
  ASSERT_TRUE(beat);
  EXPECT_EQ(beat->step, 7);
  EXPECT_EQ(beat->time, 1.7e9 + 0.25);
  EXPECT_EQ(beat->wait_seconds, 1e-7);
  for (const char* bad : {"", "1", "1 2", "1 2 x", "1 2 3 4", "a 2 3"}) {
    EXPECT_FALSE(ParseBeat(bad)) << bad;
  }
}

std::vector<std::optional<Beat>> Waits(const std::vector<double>& seconds) {
  std::vector<std::optional<Beat>> beats(seconds.size());
  std::transform(seconds.begin(), seconds.end(), beats.begin(),
                 [](double wait) { return Beat{.step = 1, .time = 1, .wait_seconds = wait}; });
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
