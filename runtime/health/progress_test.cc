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
                          "checkpoint", "evalAccuracy", "evalLoss"}) {
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
  board.eval_loss = 0.125;
  board.SetCheckpoint({.step = 20, .time = 1764542090, .path = "/c/step-000000000020"});
  const Heartbeat::Ranks ranks{.beats = {Beat{24, 1764542096, 1.5, 20, train::Phase::kEvaluating},
                                         std::nullopt, Beat{25, 1764542096, 0.5, 21}},
                               .slowest = 1};
  EXPECT_EQ(json::parse(FormatProgress(board, &ranks)), json::parse(R"({
    "step": 25, "totalSteps": 100, "epoch": 1, "epochs": 4, "percent": 25.0, "loss": 0.5,
    "samplesPerSecond": 640.0, "etaSeconds": 7.5, "slowestRank": 1,
    "lastStepTime": "2025-11-30T22:34:56Z", "evalAccuracy": 0.975, "evalLoss": 0.125,
    "checkpoint": {"step": 20, "time": "2025-11-30T22:34:50Z", "path": "/c/step-000000000020"},
    "phase": "starting",
    "ranks": [{"rank": 0, "step": 24, "lag": 1, "lastHeartbeat": "2025-11-30T22:34:56Z",
               "waitSeconds": 1.5, "busySeconds": 20.0, "phase": "evaluating"},
              {"rank": 1, "step": null, "lag": null, "lastHeartbeat": null, "waitSeconds": null,
               "busySeconds": null, "phase": null},
              {"rank": 2, "step": 25, "lag": 0, "lastHeartbeat": "2025-11-30T22:34:56Z",
               "waitSeconds": 0.5, "busySeconds": 21.0, "phase": "starting"}]})"));
}

}  // namespace
}  // namespace ddp::rt::health
