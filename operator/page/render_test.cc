#include "operator/page/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/page/loss_curve.h"

namespace ddp::page {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

const base::TimePoint kNow = *base::ParseTime("2026-01-02T03:04:05Z");

JobView Running(const std::string& name) {
  JobView view;
  view.metadata.namespace_name = "team";
  view.metadata.name = name;
  view.metadata.creation_time = kNow - seconds(3'900);
  view.status.phase = api::Phase::kRunning;
  view.status.attempt = 2;
  view.status.replicas = {.desired = 4, .ready = 3};
  view.status.restarts.application = 1;
  api::Progress progress;
  progress.step = 250;
  progress.total_steps = 1'000;
  progress.percent = 25.0;
  progress.loss = 0.125;
  progress.samples_per_second = 640.0;
  progress.eta_seconds = 90;
  progress.slowest_rank = 3;
  view.status.progress = progress;
  return view;
}

TEST(Span, IsShort) {
  const std::pair<int64_t, const char*> rows[] = {
      {-5, "now"},         {0, "now"},          {1, "1 s"},           {59, "59 s"},
      {60, "1 min"},       {3'599, "59 min"},   {3'600, "1 h 0 min"}, {11'100, "3 h 5 min"},
      {86'400, "1 d 0 h"}, {187'200, "2 d 4 h"}};
  for (const auto& [length, text] : rows) {
    EXPECT_EQ(Span(seconds(length)), text);
  }
}

TEST(Render, ListsJobsWithWhatIsKnown) {
  JobView done;
  done.metadata.namespace_name = "a";
  done.metadata.name = "done";
  done.status.phase = api::Phase::kSucceeded;
  const std::string html = RenderJobs({done, Running("mnist")}, kNow);
  EXPECT_THAT(html, HasSubstr("2 in all"));
  EXPECT_THAT(html, HasSubstr(R"(<a href="/job/team/mnist">team/mnist</a>)"));
  EXPECT_THAT(html, HasSubstr(R"(value="25.0")"));
  EXPECT_THAT(html, HasSubstr("250 / 1000"));
  EXPECT_THAT(html, HasSubstr("1 min"));
  EXPECT_THAT(html, HasSubstr("1 h 5 min"));
  EXPECT_LT(html.find("team/mnist"), html.find("a/done")) << "what runs comes first";
  EXPECT_THAT(RenderJobs({}, kNow), HasSubstr("There are none."));
}

TEST(Render, ManyJobsAreCut) {
  std::vector<JobView> jobs;
  for (int i = 0; i < 501; ++i) {
    jobs.push_back(Running("job-" + std::to_string(i)));
  }
  EXPECT_THAT(RenderJobs(jobs, kNow), HasSubstr("and 1 more"));
}

TEST(Render, AJobShowsCurveRanksAndFailures) {
  JobView view = Running("mnist");
  view.status.checkpoint = api::CheckpointState{200, kNow - seconds(30)};
  api::Failure failure;
  failure.attempt = 1;
  failure.rank = 2;
  failure.pod = "mnist-1-2";
  failure.node = "node-7";
  failure.exit_code = 137;
  failure.signal = 9;
  failure.reason = "OOMKilled";
  failure.message = "password=hunter2";
  failure.time = kNow - seconds(120);
  view.status.failures = {failure};
  Training training;
  training.losses = {{0, 2.5}, {100, 1.0}, {250, 0.125}};
  training.ranks = {{0, 250, 1.5, kNow - seconds(2)}, {3, 247, std::nullopt, std::nullopt}};
  const std::string html = RenderJob(view, training, kNow);
  EXPECT_THAT(html, HasSubstr("<polyline"));
  EXPECT_THAT(html, HasSubstr("step 200, 30 s ago"));
  EXPECT_THAT(html, HasSubstr("node-7"));
  EXPECT_THAT(html, HasSubstr("OOMKilled, signal 9"));
  EXPECT_THAT(html, HasSubstr("slowest"));
  EXPECT_LT(html.find(">247<"), html.find(">250</td>")) << "the furthest behind comes first";
  EXPECT_THAT(html, Not(HasSubstr("hunter2"))) << "log lines may tell secrets";
}

TEST(Render, EscapesAllThatOthersWrite) {
  const std::string evil = "<script>alert('x')</script>\"&";
  JobView view = Running(evil);
  view.metadata.namespace_name = evil;
  view.problem = evil;
  api::SetCondition(view.status, api::kConditionFailed, api::ConditionStatus::kTrue, evil, evil, 1,
                    kNow);
  api::Failure failure;
  failure.pod = failure.node = failure.reason = evil;
  view.status.failures = {failure};
  for (const std::string& html :
       {RenderJobs({view}, kNow), RenderJob(view, {}, kNow), RenderNotFound(evil)}) {
    EXPECT_THAT(html, Not(HasSubstr("<script")));
    EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
    EXPECT_THAT(html, Not(HasSubstr("//"))) << "nothing is loaded from elsewhere";
  }
}

TEST(LossCurve, NeedsTwoPointsAndTakesAFlatLine) {
  EXPECT_EQ(LossCurve({}), "");
  EXPECT_EQ(LossCurve({{1, 1.0}}), "");
  EXPECT_THAT(LossCurve({{1, 1.0}, {2, 1.0}}), HasSubstr("<polyline points=\"64.0,172.0"));
}

}  // namespace
}  // namespace ddp::page
