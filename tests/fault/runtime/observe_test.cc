// What ranks tell while they train, over HTTP: the operator's and the progress bar's view.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "runtime/base/temp_folder_test.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

using nlohmann::json;

constexpr const char* kLong = R"(
model: {name: mlp, hidden: 16}
train: {epochs: 1000000, batchSize: 40}
checkpoint: {everySteps: 20}
)";

json Progress(const Worker& worker) {
  const std::string answer = HttpGet(ProgressPort(worker.log()), "/progress");
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? json() : json::parse(answer.substr(body));
}

// Asks again until the answer satisfies; each request is answered at once.
template <typename Predicate>
json ProgressWhen(const Worker& worker, Predicate satisfies) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  json progress;
  do {
    progress = Progress(worker);
  } while (!satisfies(progress) && std::chrono::steady_clock::now() < end);
  return progress;
}

TEST(Observe, RankZeroTellsHowAllRanksAreDoing) {
  const TempFolder temp;
  Job job(temp.path(), 2, kLong);
  job.Start();
  ASSERT_TRUE(job.rank(0).WaitFor("step-000000000040")) << job.logs();
  // Heartbeats come once a second.
  const json progress = ProgressWhen(job.rank(0), [](const json& now) {
    return now["ranks"].is_array() && now["ranks"].size() == 2 &&
           now["ranks"][1]["step"].is_number() && now["ranks"][1]["step"] > 0;
  });
  EXPECT_GT(progress["step"], 20) << progress;
  EXPECT_EQ(progress["totalSteps"], 10'000'000) << progress;
  EXPECT_GT(progress["samplesPerSecond"], 0) << progress;
  EXPECT_GT(progress["etaSeconds"], 0) << progress;
  EXPECT_GT(progress["loss"], 0) << progress;
  EXPECT_GT(progress["evalAccuracy"], 0) << progress;
  EXPECT_GE(progress["checkpoint"]["step"], 40) << progress;
  EXPECT_GT(progress["ranks"][1]["step"], 0) << progress;
  EXPECT_TRUE(progress["ranks"][1]["lastHeartbeat"].is_string()) << progress;
  EXPECT_TRUE(progress["ranks"][1]["waitSeconds"].is_number()) << progress;
  EXPECT_FALSE(Progress(job.rank(1)).contains("ranks"));

  const std::string metrics = HttpGet(ProgressPort(job.rank(1).log()), "/metrics");
  EXPECT_NE(metrics.find("\nddp_step_seconds_count "), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("\nddp_samples_total "), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find("ddp_rank_step"), std::string::npos) << metrics;
  const std::string ready = HttpGet(ProgressPort(job.rank(1).log()), "/readyz");
  EXPECT_TRUE(ready.starts_with("HTTP/1.1 200 ")) << ready;
}

TEST(Observe, IsNotReadyBeforeAllRanksAreThere) {
  const TempFolder temp;
  WriteDigits(temp.path() / "digits", 100, 20);
  Worker alone({"train", "--config-env", "CONFIG"}, {{"CONFIG", "{}"},
                                                     {"RANK", "0"},
                                                     {"WORLD_SIZE", "2"},
                                                     {"MASTER_ADDR", "127.0.0.1"},
                                                     {"MASTER_PORT", std::to_string(FreePort())},
                                                     {"DDP_DATA_DIR", temp.path().string()}});
  ASSERT_TRUE(alone.WaitFor("serving /metrics")) << alone.log();
  const int port = ProgressPort(alone.log());
  EXPECT_TRUE(HttpGet(port, "/healthz").starts_with("HTTP/1.1 200 ")) << alone.log();
  EXPECT_TRUE(HttpGet(port, "/readyz").starts_with("HTTP/1.1 503 ")) << alone.log();
}

}  // namespace
}  // namespace ddp::rt
