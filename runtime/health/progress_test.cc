#include "runtime/health/progress.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ddp::rt::health {
namespace {

using nlohmann::json;

TEST(Progress, KnowsNothingAtStart) {
  const train::Board board;
  const json progress = json::parse(FormatProgress(board, nullptr));
  EXPECT_EQ(progress["step"], 0);
  for (const char* key : {"percent", "loss", "etaSeconds", "slowestRank", "lastStepTime",
                          "checkpoint", "evalAccuracy"}) {
    ASSERT_TRUE(progress.contains(key)) << key;
    EXPECT_TRUE(progress[key].is_null()) << key;
  }
  EXPECT_FALSE(progress.contains("ranks"));
}

TEST(Progress, SaysHowTheRunIsGoing) {
  train::Board board;
  board.step = 25;
  board.total_steps = 100;
  board.epoch = 1;
  board.epochs = 4;
  board.loss = 0.5;
  board.samples_per_second = 640;
  board.samples_per_step = 64;
  board.last_step_time = 1764542096.9;
  board.eval_accuracy = 0.975;
  board.SetCheckpoint({.step = 20, .time = 1764542090, .path = "/c/step-000000000020"});
  const Heartbeat::Ranks ranks{.beats = {Beat{25, 1764542096, 1.5}, std::nullopt}, .slowest = 1};
  EXPECT_EQ(json::parse(FormatProgress(board, &ranks)), json::parse(R"({
    "step": 25, "totalSteps": 100, "epoch": 1, "epochs": 4, "percent": 25.0, "loss": 0.5,
    "samplesPerSecond": 640.0, "etaSeconds": 7.5, "slowestRank": 1,
    "lastStepTime": "2025-11-30T22:34:56Z", "evalAccuracy": 0.975,
    "checkpoint": {"step": 20, "time": "2025-11-30T22:34:50Z", "path": "/c/step-000000000020"},
    "ranks": [{"rank": 0, "step": 25, "lastHeartbeat": "2025-11-30T22:34:56Z", "waitSeconds": 1.5},
              {"rank": 1, "step": null, "lastHeartbeat": null, "waitSeconds": null}]})"));
}

}  // namespace
}  // namespace ddp::rt::health
