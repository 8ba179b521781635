#include "operator/ddpjob/progress/read_progress.h"

#include <gtest/gtest.h>

namespace ddp::job {
namespace {

TEST(ReadProgress, ReadsWhatTheRuntimeSays) {
  const auto reply = ReadProgress(R"({
    "step": 25, "totalSteps": 100, "epoch": 1, "epochs": 4, "percent": 25.0, "loss": 0.5,
    "samplesPerSecond": 640.0, "etaSeconds": 7.5, "slowestRank": 1,
    "lastStepTime": "2025-11-30T22:34:56Z", "evalAccuracy": 0.975,
    "checkpoint": {"step": 20, "time": "2025-11-30T22:34:50Z", "path": "/c/step-000000000020"},
    "ranks": [{"rank": 0, "step": 25, "waitSeconds": 0.5,
               "lastHeartbeat": "2025-11-30T22:34:56Z"}, {"rank": 1, "step": 24},
              {"rank": "2", "step": 24}, {"rank": 3}, 4]})");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->progress.step, 25);
  EXPECT_EQ(reply->progress.total_steps, 100);
  EXPECT_EQ(reply->progress.epoch, 1);
  EXPECT_EQ(reply->epochs, 4);
  EXPECT_EQ(reply->progress.percent, 25.0);
  EXPECT_EQ(reply->progress.loss, 0.5);
  EXPECT_EQ(reply->progress.samples_per_second, 640.0);
  EXPECT_EQ(reply->progress.eta_seconds, 8);
  EXPECT_EQ(reply->progress.slowest_rank, 1);
  EXPECT_EQ(reply->progress.last_step_time, *base::ParseTime("2025-11-30T22:34:56Z"));
  ASSERT_TRUE(reply->checkpoint);
  EXPECT_EQ(reply->checkpoint->step, 20);
  EXPECT_EQ(reply->ranks,
            (std::vector<RankProgress>{{0, 25, 0.5, *base::ParseTime("2025-11-30T22:34:56Z")},
                                       {1, 24, std::nullopt, std::nullopt}}));
  EXPECT_EQ(reply->checkpoint->time, *base::ParseTime("2025-11-30T22:34:50Z"));
}

TEST(ReadProgress, AStepIsEnough) {
  const auto reply = ReadProgress(R"({"step": 3, "totalSteps": 12})");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->progress.percent, 25.0);  // reckoned
  EXPECT_FALSE(reply->progress.loss);
  EXPECT_FALSE(reply->checkpoint);
}

TEST(ReadProgress, SaysWhyATextIsNone) {
  EXPECT_EQ(ReadProgress("not json").error().message, "the answer is not JSON");
  EXPECT_EQ(ReadProgress(std::string(60'000, '[')).error().message, "the answer is not JSON");
  EXPECT_EQ(ReadProgress(R"({"step": 1, "loss": NaN})").error().message, "the answer is not JSON");
  for (const char* text :
       {"[]", "{}", "7", R"({"step": null})", R"({"step": "7"})", R"({"step": -1})",
        R"({"step": 1.5})", R"({"step": 1e300})", R"({"step": 18446744073709551615})",
        R"({"step": {}})", R"({"step": true})"}) {
    const auto reply = ReadProgress(text);
    ASSERT_FALSE(reply) << text;
    EXPECT_EQ(reply.error().message, "the answer has no 'step' that is a whole number") << text;
  }
}

TEST(ReadProgress, LeavesOutWhatIsWrong) {
  const auto reply = ReadProgress(R"({
    "step": 1, "totalSteps": "many", "epoch": -2, "percent": [], "loss": "nan",
    "samplesPerSecond": null, "etaSeconds": {}, "slowestRank": 99999999999,
    "lastStepTime": "0000-00-00T00:00:00Z", "checkpoint": {"step": "x"}})");
  ASSERT_TRUE(reply);
  api::Progress only_step;
  only_step.step = 1;
  EXPECT_EQ(reply->progress, only_step);
  EXPECT_FALSE(reply->checkpoint);
  // Larger than any double: refused as a whole, or left out; never infinite.
  const auto huge = ReadProgress(R"({"step": 1, "loss": 1e999})");
  EXPECT_TRUE(!huge || !huge->progress.loss);
}

TEST(ReadProgress, BoundsWhatItKeeps) {
  const auto reply = ReadProgress(R"({"step": 1, "percent": 1e9, "etaSeconds": 1e18,
    "lastStepTime": "9999-12-31T23:59:59Z", "checkpoint": 5})");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->progress.percent, 100.0);
  EXPECT_EQ(reply->progress.eta_seconds, 10LL * 365 * 24 * 3600);
  EXPECT_FALSE(reply->progress.last_step_time);
  EXPECT_FALSE(reply->checkpoint);
  EXPECT_EQ(ReadProgress(R"({"step": 1, "etaSeconds": -5})")->progress.eta_seconds, 0);
}

}  // namespace
}  // namespace ddp::job
