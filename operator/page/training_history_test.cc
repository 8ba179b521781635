#include "operator/page/training_history.h"

#include <gtest/gtest.h>

namespace ddp::page {
namespace {

job::ProgressReply At(int64_t step, std::optional<double> loss) {
  job::ProgressReply reply;
  reply.progress.step = step;
  reply.progress.loss = loss;
  reply.ranks = {{0, step, std::nullopt, std::nullopt}};
  return reply;
}

TEST(TrainingHistory, KeepsTheCurveAndTheRanks) {
  TrainingHistory history;
  history.Record("ns/a", At(10, 2.0));
  history.Record("ns/a", At(10, 2.0));  // the same step again
  history.Record("ns/a", At(20, std::nullopt));
  history.Record("ns/a", At(30, 1.0));
  EXPECT_EQ(history.Of("ns/a").losses, (std::vector<LossPoint>{{10, 2.0}, {30, 1.0}}));
  EXPECT_EQ(history.Of("ns/a").ranks.at(0).step, 30);
  EXPECT_TRUE(history.Of("ns/b").losses.empty());
}

TEST(TrainingHistory, AResumeTakesBackWhatCameAfterTheCheckpoint) {
  TrainingHistory history;
  for (const int64_t step : {10, 20, 30}) {
    history.Record("ns/a", At(step, static_cast<double>(step)));
  }
  history.Record("ns/a", At(15, 15.5));
  EXPECT_EQ(history.Of("ns/a").losses, (std::vector<LossPoint>{{10, 10.0}, {15, 15.5}}));
}

TEST(TrainingHistory, StaysBoundedAndSpansTheWholeRun) {
  TrainingHistory history;
  for (int64_t step = 1; step <= 100'000; ++step) {
    history.Record("ns/a", At(step, static_cast<double>(step)));
    ASSERT_LE(history.Of("ns/a").losses.size(), TrainingHistory::kMaxPoints);
  }
  const auto losses = history.Of("ns/a").losses;
  EXPECT_GE(losses.size(), TrainingHistory::kMaxPoints / 4);
  EXPECT_LT(losses.front().step, 2'000);
  EXPECT_GT(losses.back().step, 98'000);
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_LT(losses[i - 1].step, losses[i].step);
  }
}

TEST(TrainingHistory, KnowsNoMoreJobsThanItMay) {
  TrainingHistory history;
  for (size_t i = 0; i <= TrainingHistory::kMaxJobs; ++i) {
    history.Record("ns/" + std::to_string(i), At(1, 1.0));
  }
  const std::string last = "ns/" + std::to_string(TrainingHistory::kMaxJobs);
  EXPECT_TRUE(history.Of(last).losses.empty());
  history.Prune([](const std::string& key) { return key != "ns/0"; });
  EXPECT_TRUE(history.Of("ns/0").losses.empty());
  EXPECT_FALSE(history.Of("ns/1").losses.empty());
  history.Record(last, At(1, 1.0));
  EXPECT_FALSE(history.Of(last).losses.empty());
}

}  // namespace
}  // namespace ddp::page
