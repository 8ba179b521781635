// Random worlds: pods start, end, are deleted and marked as they please; the body loses status
// writes, dies between write and action or among the actions, and looks at stale snapshots. After
// each pass the rules of the design must hold, and once the faults stop every job must end.
//
// DDP_TEST_SEED=<n> repeats the world of a failure message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "operator/ddpjob/schema_testing.h"
#include "operator/ddpjob/testing.h"

namespace ddp::job {
namespace {

using api::Phase;
using std::chrono::seconds;
using testing::kStart;
using testing::MakeJob;
using testing::Pod;

constexpr int kWorlds = 400;
constexpr int kFaultySteps = 250;
constexpr int kCalmSteps = 400;

// A job as the API server would be given it.
json::Json WithStatus(const json::Json& status) {
  const api::DDPJob job = MakeJob();
  return {{"apiVersion", api::kApiVersion},
          {"kind", api::kKind},
          {"metadata", {{"name", job.metadata.name}}},
          {"spec", {{"replicas", job.spec.replicas}, {"template", job.spec.pod_template}}},
          {"status", status}};
}

class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    stored_.job = MakeJob(1 + Below(4));
    stored_.job.spec.restart.max_restarts = Below(6);
    stored_.job.spec.restart.max_uncounted_restarts = Below(12);
    stored_.service = ServiceState::kMissing;
    stale_ = stored_;
  }

  void RunFaulty() {
    for (int i = 0; i < kFaultySteps && !::testing::Test::HasFatalFailure(); ++i) {
      now_ += base::Duration(Below(3'000'000));
      for (PodRecord& pod : stored_.pods) {
        Disturb(pod);
      }
      Vanish();
      if (Chance(10)) {
        stale_ = stored_;
        stale_version_ = version_;
      }
      Pass(/*faulty=*/true);
    }
  }

  // Every pod starts and ends well, every write succeeds: the job must reach an end, and a quiet
  // world must have told when to look again.
  void RunCalm() {
    for (int i = 0; i < kCalmSteps; ++i) {
      if (stored_.job.status.finished() && ActivePods() == 0) {
        return;
      }
      const Plan plan = Pass(/*faulty=*/false);
      const bool changed = MoveOn();
      Vanish();
      if (plan.actions.empty() && plan.urgency == Urgency::kNone && !changed) {
        if (plan.wake_up) {
          now_ = std::max(now_, *plan.wake_up);
        } else {
          ASSERT_TRUE(stored_.job.status.finished() || LatestDeletion() > now_)
              << "wedged in phase " << Name(stored_.job.status.phase) << ", attempt "
              << stored_.job.status.attempt;
          now_ = std::max(now_, LatestDeletion());
        }
      }
      now_ += base::Duration(200'000);
    }
    FAIL() << "no end: phase " << Name(stored_.job.status.phase) << ", attempt "
           << stored_.job.status.attempt;
  }

 private:
  int Below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool Chance(int one_in) { return Below(one_in) == 0; }

  void End(PodRecord& pod, int code) {
    pod = testing::PodMaker(pod.attempt, pod.rank).Exited(code, now_);
  }

  void Disturb(PodRecord& pod) {
    constexpr int kCodes[] = {0, 0, 0, 1, 69, 69, 70, 75, 137, 143};
    if (pod.terminated()) {
      return;
    }
    const auto deletion = pod.deletion_time;
    const std::string disruption = pod.disruption;
    if (pod.phase == PodPhase::kPending && Chance(2)) {
      pod = Pod(pod.attempt, pod.rank).Running();
    } else if (pod.phase == PodPhase::kRunning && Chance(12)) {
      End(pod, Chance(60) ? 78 : kCodes[Below(10)]);
    }
    pod.deletion_time = deletion;
    pod.disruption = disruption;
    if (Chance(80)) {
      pod.disruption = Chance(2) ? "PreemptionByScheduler" : "DeletionByTaintManager";
    }
    if (!pod.deletion_time && Chance(80)) {
      pod.deletion_time = now_ + seconds(Below(40));  // by somebody else
    }
  }

  bool MoveOn() {
    bool changed = false;
    for (PodRecord& pod : stored_.pods) {
      if (pod.terminated() || pod.deletion_time) {
        continue;
      }
      changed = true;
      if (pod.phase == PodPhase::kPending) {
        pod = Pod(pod.attempt, pod.rank).Running();
      } else {
        End(pod, 0);
      }
    }
    return changed;
  }

  // What is being deleted goes when its grace ends, some on a dead node much later; a few are
  // removed by force.
  void Vanish() {
    std::erase_if(stored_.pods, [this](const PodRecord& pod) {
      const bool due = pod.deletion_time && *pod.deletion_time <= now_;
      return due && !Chance(4);
    });
  }

  TimePoint LatestDeletion() const {
    TimePoint latest = TimePoint::min();
    for (const PodRecord& pod : stored_.pods) {
      latest = std::max(latest, pod.deletion_time.value_or(TimePoint::min()));
    }
    return latest;
  }

  int ActivePods() const {
    int active = 0;
    for (const PodRecord& pod : stored_.pods) {
      active += pod.terminated() || pod.deletion_time ? 0 : 1;
    }
    return active;
  }

  // One pass of a body, with its possible misfortunes.
  Plan Pass(bool faulty) {
    const bool old_view = faulty && Chance(15);
    const Observed seen = old_view ? stale_ : stored_;
    const int seen_version = old_view ? stale_version_ : version_;
    Plan plan = MakePlan(seen, now_);
    if (plan.urgency != Urgency::kNone) {
      if (seen_version != version_ || (faulty && Chance(8))) {
        return plan;  // conflict or lost write: nothing else may happen
      }
      CheckTransition(stored_.job.status, plan.status);
      stored_.job.status = plan.status;
      ++version_;
    }
    for (const Action& action : plan.actions) {
      if (faulty && Chance(10)) {
        break;  // the operator dies here
      }
      Carry(action, seen, old_view);
    }
    return plan;
  }

  void CheckTransition(const api::Status& before, const api::Status& after) {
    if (before.finished()) {
      EXPECT_EQ(before.phase, after.phase) << "a terminal phase changed";
      EXPECT_EQ(before.completion_time, after.completion_time);
    }
    EXPECT_GE(after.attempt, before.attempt);
    EXPECT_LE(after.attempt, before.attempt + 1);
    EXPECT_GE(after.restarts.Total(), before.restarts.Total());
    EXPECT_LE(after.restarts.Total(), before.restarts.Total() + 1);
    // Each attempt but the first exists because exactly one failure was counted.
    const bool booked = after.phase == Phase::kRestarting && !after.give_up_time;
    EXPECT_EQ(after.restarts.Total(), after.attempt - (booked ? 0 : 1))
        << "phase " << Name(after.phase);
    if (after.attempt == before.attempt) {
      EXPECT_GE(after.phase, before.phase) << "phases go forward within an attempt";
      EXPECT_GE(after.succeeded_ranks.size(), before.succeeded_ranks.size());
    }
    const json::Json written = api::StatusToJson(after);
    EXPECT_EQ(api::StatusFromJson(written), after);
    if (Chance(300)) {  // the check costs far more than the pass
      EXPECT_THAT(testing::SchemaErrors(WithStatus(written)), ::testing::IsEmpty());
    }
  }

  void Carry(const Action& action, const Observed& seen, bool old_view) {
    if (std::holds_alternative<CreateService>(action)) {
      stored_.service = ServiceState::kOurs;
    } else if (const auto* deletion = std::get_if<DeletePods>(&action)) {
      Delete(*deletion);
    } else if (const auto* creation = std::get_if<CreatePods>(&action)) {
      Create(*creation, seen, old_view);
    }
  }

  void Delete(const DeletePods& deletion) {
    for (PodRecord& pod : stored_.pods) {
      if (pod.attempt != deletion.attempt || (deletion.keep_terminated && pod.terminated())) {
        continue;
      }
      const TimePoint due = now_ + seconds(deletion.grace_seconds.value_or(30));
      pod.deletion_time = std::min(pod.deletion_time.value_or(due), due);
    }
    std::erase_if(stored_.pods,
                  [](const PodRecord& pod) { return pod.deletion_time && pod.terminated(); });
  }

  void Create(const CreatePods& creation, const Observed& seen, bool old_view) {
    if (!old_view) {
      EXPECT_FALSE(stored_.job.status.finished()) << "pods for a finished job";
      EXPECT_EQ(creation.attempt, stored_.job.status.attempt);
      for (const PodRecord& pod : seen.pods) {
        EXPECT_TRUE(pod.attempt == creation.attempt || pod.terminated() || pod.deletion_time)
            << "pods of attempts " << pod.attempt << " and " << creation.attempt
            << " are wanted at once";
      }
    }
    for (const int rank : creation.ranks) {
      const std::string name = api::PodName("mnist", creation.attempt, rank);
      const bool exists = std::any_of(stored_.pods.begin(), stored_.pods.end(),
                                      [&name](const PodRecord& pod) { return pod.name == name; });
      if (exists) {
        continue;  // AlreadyExists, ours
      }
      if (!old_view) {
        EXPECT_FALSE(stored_.job.status.pods_created_time) << "made twice: " << name;
      }
      stored_.pods.push_back(Pod(creation.attempt, rank));
    }
  }

  std::mt19937 random_;
  TimePoint now_ = kStart;
  Observed stored_;
  int version_ = 0;
  Observed stale_;
  int stale_version_ = 0;
};

void RunWorld(unsigned seed) {
  SCOPED_TRACE("DDP_TEST_SEED=" + std::to_string(seed));
  World world(seed);
  world.RunFaulty();
  world.RunCalm();
}

TEST(PlanRandom, RulesHoldInAnyWorld) {
  if (const char* seed = std::getenv("DDP_TEST_SEED"); seed != nullptr) {
    RunWorld(static_cast<unsigned>(std::strtoul(seed, nullptr, 10)));
    return;
  }
  for (unsigned seed = 1; seed <= kWorlds && !HasFailure(); ++seed) {
    RunWorld(seed);
  }
}

}  // namespace
}  // namespace ddp::job
