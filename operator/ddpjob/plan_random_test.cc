// Random worlds: pods start, end, are deleted and marked as they please; rank 0 tells of steps or
// does not; users suspend, resume and ask for restarts; nodes die; the body loses status writes,
// dies between write and action or among the actions, and looks at stale snapshots. After each pass
// the rules of the design must hold, and once the faults stop every job must end.
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
          {"spec", {{"replicas", job.spec.replicas}, {"template", job.spec.pod_template.Parsed()}}},
          {"status", status}};
}

class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    stored_.job = MakeJob(1 + Below(4));
    stored_.job.spec.restart.max_restarts = Below(6);
    stored_.job.spec.restart.max_uncounted_restarts = Below(12);
    stored_.service = ServiceState::kMissing;
    stored_.job.metadata.creation_time = kStart;
    ChooseFeatures();
    stale_ = stored_;
  }

  void RunFaulty() {
    for (int i = 0; i < kFaultySteps && !::testing::Test::HasFatalFailure(); ++i) {
      now_ += base::Duration(Below(3'000'000));
      for (PodRecord& pod : stored_.pods) {
        Disturb(pod);
      }
      Vanish();
      Meddle();
      Tell();
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
    stored_.job.spec.suspend = false;
    stored_.progress.reset();
    for (int i = 0; i < kCalmSteps; ++i) {
      const bool stays = stored_.job.spec.clean_pod_policy == api::CleanPodPolicy::kNone;
      if (deleted_ || (stored_.job.status.finished() && (stays || ActivePods() == 0))) {
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
  void ChooseFeatures() {
    api::Spec& spec = stored_.job.spec;
    spec.processes_per_replica = 1 + Below(3);
    spec.startup_timeout_seconds = Chance(2) ? 0 : 20 + Below(60);
    spec.clean_pod_policy = static_cast<api::CleanPodPolicy>(Below(3));
    if (Chance(3)) {
      spec.progress = {.stall_timeout_seconds = 5 + Below(30),
                       .on_stall = Chance(6)   ? api::OnStall::kFail
                                   : Chance(2) ? api::OnStall::kReport
                                               : api::OnStall::kRestart};
    }
    if (Chance(4)) {
      spec.active_deadline_seconds = 60 + Below(600);
    }
    if (Chance(4)) {
      spec.ttl_seconds_after_finished = Below(60);
    }
    if (Chance(3)) {
      spec.restart.rules = {
          {.exit_codes = {1 + Below(70)}, .action = static_cast<api::FailureAction>(Below(3))},
          {.reasons = {"PodDeleted"}, .action = api::FailureAction::kRestart}};
    }
    if (Chance(3)) {
      spec.scheduling.gang = api::Gang::kKubernetes;
    }
    stored_.settings.network_policies = Chance(3);
    if (Chance(2)) {
      stored_.settings.force_delete_after = seconds(5 + Below(30));
    }
  }

  // What users do.
  void Meddle() {
    if (Chance(60)) {
      stored_.job.spec.suspend = !stored_.job.spec.suspend;
    }
    if (Chance(80)) {
      stored_.job.metadata.restart_requested = std::chrono::floor<seconds>(now_);
    }
  }

  // What rank 0 says of itself, if it is asked and answers.
  void Tell() {
    if (Chance(2)) {
      return;
    }
    ProgressPull pull{
        .attempt = stored_.job.status.attempt, .ok = !Chance(4), .error = "refused", .time = now_};
    step_ += Chance(2) ? Below(3) : 0;
    pull.progress.step = step_;
    if (Chance(3)) {
      pull.checkpoint = api::CheckpointState{step_ / 10 * 10, std::nullopt};
    }
    stored_.progress = pull;
  }

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
    const bool postponed = plan.urgency == Urgency::kCounts && plan.events.empty() && Chance(2);
    if (plan.urgency != Urgency::kNone && !postponed) {
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
    CheckReasonOfAttempt(before, after);
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

  // Each attempt but the first exists because exactly one failure was counted, or because the job
  // was resumed, or because a restart was asked for.
  void CheckReasonOfAttempt(const api::Status& before, const api::Status& after) {
    const int counted = after.restarts.Total() - total_of_attempt_;
    EXPECT_LE(counted, 1) << "attempt " << after.attempt << ", phase " << Name(after.phase);
    if (after.attempt == before.attempt) {
      return;
    }
    const bool asked = after.restart_request_time != request_of_attempt_;
    const bool resumed = before.phase == Phase::kSuspended;
    EXPECT_TRUE(before.attempt == 0 || counted == 1 || asked || resumed)
        << "attempt " << after.attempt << " has no reason";
    total_of_attempt_ = after.restarts.Total();
    request_of_attempt_ = after.restart_request_time;
  }

  void Carry(const Action& action, const Observed& seen, bool old_view) {
    if (std::holds_alternative<CreateService>(action)) {
      stored_.service = ServiceState::kOurs;
    } else if (const auto* deletion = std::get_if<DeletePods>(&action)) {
      Delete(*deletion);
    } else if (const auto* creation = std::get_if<CreatePods>(&action)) {
      Create(*creation, seen, old_view);
    } else if (const auto* extra = std::get_if<CreateExtra>(&action)) {
      stored_.extras[extra->extra] = {.attempt = extra->attempt};
    } else if (const auto* question = std::get_if<AskNodes>(&action)) {
      for (const std::string& node : question->nodes) {
        const bool unwell = Chance(3);
        stored_.nodes[node] = {
            .time = now_, .unwell = unwell, .lost = unwell && Chance(2), .lost_since = now_};
      }
    } else if (const auto* forced = std::get_if<ForceDeletePod>(&action)) {
      std::erase_if(stored_.pods, [forced](const PodRecord& pod) {
        EXPECT_TRUE(pod.uid != forced->uid || pod.deletion_time) << pod.name << " is not overdue";
        return pod.uid == forced->uid;
      });
    } else if (std::holds_alternative<DeleteJob>(action)) {
      EXPECT_TRUE(stored_.job.status.finished());
      deleted_ = true;
    }
  }

  void Delete(const DeletePods& deletion) {
    for (PodRecord& pod : stored_.pods) {
      if (pod.attempt != deletion.attempt || (deletion.keep_ended && pod.ended())) {
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
      EXPECT_FALSE(stored_.job.spec.suspend) << "pods for a suspended job";
      if (stored_.job.spec.scheduling.gang == api::Gang::kKubernetes) {
        EXPECT_EQ(stored_.extras[Extra::kPodGroup].attempt, creation.attempt);
      }
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
  int64_t step_ = 0;
  bool deleted_ = false;
  int total_of_attempt_ = 0;  // restarts when the attempt began
  std::optional<TimePoint> request_of_attempt_;
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
