#include "operator/ddpjob/job_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/ddpjob/testing.h"

namespace ddp::job {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Scrape(const controller::Store<CachedJob>& store) {
  controller::Metrics metrics;
  metrics.AddCollector([&store] { return JobMetrics(store); });
  return metrics.Text();
}

TEST(JobMetrics, TellOfEachJobWhatItsStatusTells) {
  controller::Store<CachedJob> store;
  CachedJob cached{testing::MakeJob(4), {}};
  api::Status& status = cached.job.status;
  status.phase = api::Phase::kRunning;
  status.attempt = 3;
  status.restarts.infrastructure = 2;
  status.replicas.ready = 4;
  status.progress.emplace();
  status.progress->step = 120;
  status.progress->total_steps = 400;
  status.progress->loss = 0.25;
  status.checkpoint = api::CheckpointState{100, testing::kStart};
  api::SetCondition(status, api::kConditionStalled, api::ConditionStatus::kTrue, "r", "m", 1,
                    testing::kStart);
  store.Put("default/mnist", {"u", "1", std::make_shared<const CachedJob>(cached)});
  const std::string text = Scrape(store);
  for (
      const char* line :
      {R"(ddpjob_job_phase{job_name="mnist",namespace="default",phase="Running"} 1)",
       R"(ddpjob_job_restarts{cause="infrastructure",job_name="mnist",namespace="default"} 2)",
       R"(ddpjob_job_restarts{cause="application",job_name="mnist",namespace="default"} 0)",
       R"(ddpjob_job_attempt{job_name="mnist",namespace="default"} 3)",
       R"(ddpjob_job_replicas_desired{job_name="mnist",namespace="default"} 4)",
       R"(ddpjob_job_step{job_name="mnist",namespace="default"} 120)",
       R"(ddpjob_job_total_steps{job_name="mnist",namespace="default"} 400)",
       R"(ddpjob_job_loss{job_name="mnist",namespace="default"} 0.25)",
       R"(ddpjob_job_checkpoint_step{job_name="mnist",namespace="default"} 100)",
       R"(ddpjob_job_checkpoint_timestamp_seconds{job_name="mnist",namespace="default"} 1700000000)",
       R"(ddpjob_job_condition{job_name="mnist",namespace="default",type="Stalled"} 1)"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("ddpjob_job_samples_per_second{")));
  store.Remove("default/mnist");
  EXPECT_THAT(Scrape(store), Not(HasSubstr("mnist")));
}

}  // namespace
}  // namespace ddp::job
