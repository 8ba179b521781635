#include "runtime/health/metrics.h"

#include <gtest/gtest.h>

namespace ddp::rt::health {
namespace {

TEST(Metrics, HasEverySeriesFromTheStart) {
  const std::string text = FormatMetrics(train::Board(), nullptr);
  for (const char* line :
       {"# TYPE ddp_step gauge\nddp_step 0\n",
        "# TYPE ddp_samples_total counter\nddp_samples_total 0\n", "ddp_checkpoint_step -1\n",
        "ddp_loss Nan\n", "# TYPE ddp_step_seconds histogram\n", "ddp_step_seconds_count 0\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
  }
}

TEST(Metrics, HistogramsAreCumulative) {
  train::Board board;
  for (const double seconds : {0.0005, 0.001, 0.02, 100.0}) {
    board.step_seconds.Observe(seconds);
  }
  const std::string text = FormatMetrics(board, nullptr);
  for (const char* line :
       {"ddp_step_seconds_bucket{le=\"0.001\"} 2\n", "ddp_step_seconds_bucket{le=\"0.01\"} 2\n",
        "ddp_step_seconds_bucket{le=\"0.025\"} 3\n", "ddp_step_seconds_bucket{le=\"30\"} 3\n",
        "ddp_step_seconds_bucket{le=\"+Inf\"} 4\n", "ddp_step_seconds_count 4\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
  }
}

TEST(Metrics, RankZeroExportsAllRanks) {
  const Heartbeat::Ranks ranks{.beats = {Beat{5, 10, 1}, std::nullopt, Beat{4, 10, 2}},
                               .slowest = 1};
  const std::string text = FormatMetrics(train::Board(), &ranks);
  EXPECT_NE(text.find("ddp_rank_step{rank=\"0\"} 5\nddp_rank_step{rank=\"2\"} 4\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("ddp_rank_wait_seconds{rank=\"2\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("ddp_rank_lag_steps{rank=\"2\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("ddp_slowest_rank 1\n"), std::string::npos) << text;
}

// The names that dashboards and alerts use.
TEST(Metrics, HasThePartsOfAStep) {
  train::Board board;
  board.SetTransport("shm");
  const std::string text = FormatMetrics(board, nullptr);
  for (const char* name : {"ddp_data_wait_seconds", "ddp_forward_seconds", "ddp_backward_seconds",
                           "ddp_optimizer_seconds", "ddp_exposed_communication_seconds",
                           "ddp_checkpoint_seconds", "ddp_checkpoint_stall_seconds"}) {
    EXPECT_NE(text.find(std::string("# TYPE ") + name + " histogram\n"), std::string::npos) << name;
  }
  for (const char* line :
       {"ddp_gradient_norm Nan\n", "ddp_eval_loss Nan\n", "ddp_skipped_steps_total 0\n",
        "ddp_parameter_hash_mismatches_total 0\n", "ddp_parameter_hash_checks_total 0\n",
        "ddp_checkpoint_failures_total 0\n", "ddp_transport_info{transport=\"shm\"} 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
  }
}

}  // namespace
}  // namespace ddp::rt::health
