#include "operator/ddpjob/progress/pull_schedule.h"

#include <gtest/gtest.h>

#include <functional>

#include "operator/ddpjob/progress/progress_puller.h"

namespace ddp::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kKey = "default/mnist";

ProgressReply At(int64_t step, std::optional<int64_t> checkpoint = std::nullopt) {
  ProgressReply reply;
  reply.progress.step = step;
  if (checkpoint) {
    reply.checkpoint = api::CheckpointState{*checkpoint, std::nullopt};
  }
  return reply;
}

// Plays the clock: every pull is answered at once.
class ScheduleTest : public ::testing::Test {
 protected:
  void Watch(seconds stall_timeout = seconds(0)) {
    schedule_.Set(kKey, PullTarget{{"10.0.0.1", 9410}, 1, stall_timeout}, now_);
  }
  // Goes to the next pull and answers it; whether that was news.
  bool Answer(const base::Result<ProgressReply>& reply) {
    now_ = std::max(now_, schedule_.NextDue().value_or(now_));
    const auto pulls = schedule_.TakeDue(now_);
    EXPECT_EQ(pulls.size(), 1U);
    return !pulls.empty() && schedule_.Finish(pulls.front(), reply, Wall(), now_);
  }
  bool Miss() { return Answer(base::Error{base::ErrorCode::kUnavailable, "connection refused"}); }
  TimePoint Wall() const {
    return TimePoint(std::chrono::duration_cast<base::Duration>(now_.time_since_epoch()));
  }
  seconds Elapsed() const { return std::chrono::duration_cast<seconds>(now_ - start_); }
  const ProgressPull& Told() {
    told_ = schedule_.Told(kKey, 1);
    EXPECT_TRUE(told_);
    if (!told_) {
      told_.emplace();
    }
    return *told_;
  }

  PullSchedule::Time start_{seconds(1'000)};
  PullSchedule::Time now_ = start_;
  PullSchedule schedule_;
  std::optional<ProgressPull> told_;
};

TEST_F(ScheduleTest, TheFirstAnswerIsNewsAndLaterOnesEveryTenSeconds) {
  Watch();
  EXPECT_TRUE(Answer(At(0)));
  EXPECT_EQ(Elapsed(), seconds(0));
  std::vector<int64_t> told_at;
  for (int64_t step = 1; step < 12; ++step) {
    if (Answer(At(step))) {
      told_at.push_back(Elapsed().count());
    }
  }
  ASSERT_GE(told_at.size(), 3U);
  EXPECT_EQ(told_at[0], 10);
  EXPECT_EQ(told_at[1], 20);
  EXPECT_EQ(told_at[2], 30);
}

TEST_F(ScheduleTest, NothingNewIsNoNews) {
  Watch();
  EXPECT_TRUE(Answer(At(7)));
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(Answer(At(7)));
  }
}

TEST_F(ScheduleTest, ANewerCheckpointIsNewsAtOnce) {
  Watch();
  EXPECT_TRUE(Answer(At(1)));
  EXPECT_FALSE(Answer(At(2)));
  EXPECT_TRUE(Answer(At(3, 2)));
  EXPECT_EQ(Told().checkpoint->step, 2);
  EXPECT_FALSE(Answer(At(4, 1)));  // an older one is not newer
  EXPECT_LT(Elapsed(), seconds(10));
}

TEST_F(ScheduleTest, AStallIsToldWhenItsTimeIsOverAndAgainAtEachPull) {
  Watch(seconds(5));
  EXPECT_TRUE(Answer(At(1)));
  EXPECT_FALSE(Answer(At(1)));  // 1 s
  EXPECT_FALSE(Answer(At(1)));  // 3 s
  EXPECT_TRUE(Answer(At(1)));
  EXPECT_EQ(Elapsed(), seconds(5));
  EXPECT_TRUE(Answer(At(1)));
  EXPECT_EQ(std::chrono::floor<seconds>(Told().time.time_since_epoch()),
            std::chrono::floor<seconds>(now_.time_since_epoch()));
  EXPECT_GT(Elapsed(), seconds(5));
}

TEST_F(ScheduleTest, APeerThatNeverAnswersIsToldAfterAWhileAndAskedRarely) {
  Watch();
  while (Elapsed() < seconds(20)) {
    EXPECT_FALSE(Miss());
    EXPECT_FALSE(schedule_.Told(kKey, 1));
  }
  bool told = false;
  while (!told && Elapsed() < seconds(60)) {
    told = Miss();
  }
  EXPECT_TRUE(told);
  EXPECT_GE(Elapsed(), seconds(30));
  EXPECT_FALSE(Told().ok);
  EXPECT_EQ(Told().error, "connection refused");
  const auto before = now_;
  EXPECT_FALSE(Miss());
  EXPECT_EQ(now_ - before, seconds(30));
  EXPECT_TRUE(Answer(At(1)));  // it came up after all
  EXPECT_TRUE(Told().ok);
}

TEST_F(ScheduleTest, OneLostAnswerIsNoNewsThreeAre) {
  Watch();
  EXPECT_TRUE(Answer(At(1)));
  EXPECT_FALSE(Miss());
  EXPECT_FALSE(Answer(At(1)));
  EXPECT_FALSE(Miss());
  EXPECT_FALSE(Miss());
  EXPECT_TRUE(Told().ok);
  EXPECT_TRUE(Miss());
  EXPECT_FALSE(Told().ok);
}

TEST_F(ScheduleTest, ChangingTroubleIsToldRarely) {
  Watch();
  EXPECT_TRUE(Answer(At(1)));
  int told = 0;
  for (int i = 0; Elapsed() < seconds(100); ++i) {
    told += Answer(base::Error{base::ErrorCode::kUnavailable, std::to_string(i)}) ? 1 : 0;
  }
  EXPECT_LE(told, 11);
}

TEST_F(ScheduleTest, ABoundedNumberIsUnderWay) {
  PullOptions options;
  options.max_in_flight = 3;
  PullSchedule schedule(options);
  for (int i = 0; i < 10; ++i) {
    schedule.Set("job" + std::to_string(i), PullTarget{{"10.0.0.1", 9410}, 1, seconds(0)}, now_);
  }
  const auto pulls = schedule.TakeDue(now_);
  EXPECT_EQ(pulls.size(), 3U);
  EXPECT_TRUE(schedule.TakeDue(now_).empty());
  EXPECT_FALSE(schedule.NextDue());
  (void)schedule.Finish(pulls[0], At(1), TimePoint(), now_);
  EXPECT_TRUE(schedule.NextDue());
  EXPECT_EQ(schedule.TakeDue(now_).size(), 1U);
}

TEST_F(ScheduleTest, AnAnswerOfAnEarlierAttemptIsDropped) {
  Watch();
  const auto pulls = schedule_.TakeDue(now_);
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_TRUE(schedule_.Set(kKey, PullTarget{{"10.0.0.2", 9410}, 2, seconds(0)}, now_));
  EXPECT_FALSE(schedule_.Finish(pulls[0], At(99), TimePoint(), now_));
  EXPECT_FALSE(schedule_.Told(kKey, 2));
  EXPECT_TRUE(Answer(At(1)));
  EXPECT_FALSE(schedule_.Told(kKey, 1));
  EXPECT_EQ(schedule_.Told(kKey, 2)->progress.step, 1);
  EXPECT_TRUE(schedule_.Set(kKey, std::nullopt, now_));
  EXPECT_FALSE(schedule_.Set(kKey, std::nullopt, now_));
  EXPECT_FALSE(schedule_.NextDue());
}

// ---- whom to ask --------------------------------------------------------------------------------

Observed RunningJob() {
  Observed observed;
  observed.job.spec.replicas = 2;
  observed.job.status.phase = api::Phase::kRunning;
  observed.job.status.attempt = 3;
  for (const int rank : {1, 0}) {
    PodRecord pod;
    pod.attempt = 3;
    pod.rank = rank;
    pod.phase = PodPhase::kRunning;
    pod.started = true;
    pod.ip = "10.0.0." + std::to_string(rank);
    observed.pods.push_back(pod);
  }
  return observed;
}

struct NotAsked {
  const char* why;
  std::function<void(Observed&)> change;
};

TEST(FindPullTarget, IsRankZeroOfTheAttempt) {
  const auto target = FindPullTarget(RunningJob());
  ASSERT_TRUE(target);
  EXPECT_EQ(target->address, (HttpAddress{"10.0.0.0", 9410}));
  EXPECT_EQ(target->attempt, 3);
}

TEST(FindPullTarget, IsNobodyWhereNobodyMayBeAsked) {
  const NotAsked rows[] = {
      {"it has ended", [](Observed& o) { o.job.status.phase = api::Phase::kSucceeded; }},
      {"it restarts", [](Observed& o) { o.job.status.phase = api::Phase::kRestarting; }},
      {"the job is being deleted", [](Observed& o) { o.job.metadata.deletion_time.emplace(); }},
      {"a port of the system", [](Observed& o) { o.job.spec.progress.port = 80; }},
      {"the node's network",
       [](Observed& o) {
         o.job.spec.pod_template = api::PodTemplate(json::Json{{"spec", {{"hostNetwork", true}}}});
       }},
      {"no address yet", [](Observed& o) { o.pods[1].ip.clear(); }},
      {"not started", [](Observed& o) { o.pods[1].started = false; }},
      {"of another attempt", [](Observed& o) { o.pods[1].attempt = 2; }},
      {"its end has come", [](Observed& o) { o.pods[1].exit_code = 0; }},
      {"it is being deleted", [](Observed& o) { o.pods[1].deletion_time.emplace(); }},
      {"a spec that can't be read",
       [](Observed& o) {
         o.problems.push_back({"spec", "bad"});
       }},
  };
  for (const NotAsked& row : rows) {
    Observed observed = RunningJob();
    row.change(observed);
    EXPECT_FALSE(FindPullTarget(observed)) << row.why;
  }
}

}  // namespace
}  // namespace ddp::job
