// The small policies, each as a table: timers, stalls, transport, nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/ddpjob/node_policy.h"
#include "operator/ddpjob/progress_policy.h"
#include "operator/ddpjob/restart_policy.h"
#include "operator/ddpjob/testing.h"
#include "operator/ddpjob/timers.h"
#include "operator/ddpjob/transport_policy.h"

namespace ddp::job {
namespace {

using api::Phase;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::EditPod;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kStart;
using testing::MakeJob;
using testing::Pod;

// ---- timers -------------------------------------------------------------------------------------

TEST(Timers, CountFromTheirTimestamps) {
  api::Spec spec;
  api::Status status;
  EXPECT_FALSE(DeadlineOf(spec, status));
  EXPECT_FALSE(ExpiryOf(spec, status));
  EXPECT_FALSE(StartupDueOf(spec, status)) << "no pod has a node";
  spec.active_deadline_seconds = 10;
  spec.ttl_seconds_after_finished = 0;
  spec.startup_timeout_seconds = 30;
  EXPECT_FALSE(DeadlineOf(spec, status)) << "not started";
  status.start_time = kStart;
  status.bound_time = kStart + seconds(5);
  EXPECT_EQ(DeadlineOf(spec, status), kStart + seconds(10));
  EXPECT_EQ(StartupDueOf(spec, status), kStart + seconds(35));
  status.running_time = kStart + seconds(6);
  EXPECT_FALSE(StartupDueOf(spec, status)) << "all run";
  EXPECT_FALSE(ExpiryOf(spec, status)) << "not finished";
  status.phase = Phase::kSucceeded;
  status.completion_time = kStart + seconds(8);
  EXPECT_EQ(ExpiryOf(spec, status), kStart + seconds(8));
  EXPECT_FALSE(DeadlineOf(spec, status)) << "finished in time";
}

// ---- budgets ------------------------------------------------------------------------------------

struct RenewalCase {
  const char* name;
  int64_t known;
  std::optional<int64_t> newest;
  std::optional<int> ran_minutes;
  api::Budget after;
};

class RenewalTable : public ::testing::TestWithParam<RenewalCase> {};

TEST_P(RenewalTable, Holds) {
  const RenewalCase& c = GetParam();
  const auto newest =
      c.newest ? std::optional(api::CheckpointState{*c.newest, std::nullopt}) : std::nullopt;
  const auto ran =
      c.ran_minutes ? std::optional<TimePoint>(kStart - minutes(*c.ran_minutes)) : std::nullopt;
  EXPECT_EQ(RenewedBudget({2, 3, c.known}, newest, ran, kStart), c.after);
}

INSTANTIATE_TEST_SUITE_P(Budgets, RenewalTable,
                         ::testing::Values(RenewalCase{"nothing", -1, {}, {}, {2, 3, -1}},
                                           RenewalCase{"ran_short", -1, {}, 9, {2, 3, -1}},
                                           RenewalCase{"ran_long", 7, {}, 10, {0, 0, 7}},
                                           RenewalCase{"first", -1, 0, 1, {0, 0, 0}},
                                           RenewalCase{"newer", 7, 8, {}, {0, 0, 8}},
                                           RenewalCase{"same", 7, 7, 1, {2, 3, 7}},
                                           RenewalCase{"older", 7, 3, 1, {2, 3, 7}}),
                         [](const auto& c) { return c.param.name; });

// ---- stalls -------------------------------------------------------------------------------------

struct StallCase {
  const char* name;
  int timeout;
  Phase phase;
  std::optional<int> step_after;  // the last new step, in seconds after all had started
  int pulled_after;
  bool ok;
  int pull_attempt;
  bool stalled;
};

class StallTable : public ::testing::TestWithParam<StallCase> {};

TEST_P(StallTable, Holds) {
  const StallCase& c = GetParam();
  api::Status status;
  status.attempt = 2;
  status.phase = c.phase;
  status.running_time = kStart;
  if (c.step_after) {
    status.step_time = kStart + seconds(*c.step_after);
  }
  const ProgressPull pull{
      .attempt = c.pull_attempt, .ok = c.ok, .error = "", .time = kStart + seconds(c.pulled_after)};
  const Stall stall = FindStall({.stall_timeout_seconds = c.timeout}, status, pull, pull.time);
  EXPECT_EQ(stall.stalled, c.stalled);
  EXPECT_EQ(stall.message.empty(), !c.stalled);
}

INSTANTIATE_TEST_SUITE_P(
    Stalls, StallTable,
    ::testing::Values(StallCase{"off", 0, Phase::kRunning, 0, 900, true, 2, false},
                      StallCase{"in_time", 60, Phase::kRunning, 10, 69, true, 2, false},
                      StallCase{"too_late", 60, Phase::kRunning, 10, 70, true, 2, true},
                      StallCase{"never_a_step", 60, Phase::kRunning, {}, 60, true, 2, true},
                      StallCase{"silent", 60, Phase::kRunning, 10, 900, false, 2, false},
                      StallCase{"of_the_last_attempt", 60, Phase::kRunning, 10, 900, true, 1,
                                false},
                      StallCase{"restarting", 60, Phase::kRestarting, 10, 900, true, 2, false}),
    [](const auto& c) { return c.param.name; });

TEST(NoteProgress, OnlyAnotherStepIsNews) {
  api::Status status;
  status.attempt = 1;
  ProgressPull pull{.attempt = 1, .ok = true, .error = "", .time = kStart};
  pull.progress.step = 5;
  NoteProgress(pull, status);
  EXPECT_EQ(status.step_time, kStart);
  pull.time += seconds(30);
  pull.progress.loss = 0.5;
  NoteProgress(pull, status);
  EXPECT_EQ(status.step_time, kStart);
  EXPECT_EQ(status.progress->loss, 0.5);
  pull.progress.step = 4;  // an attempt that goes on from an older checkpoint
  NoteProgress(pull, status);
  EXPECT_EQ(status.step_time, kStart + seconds(30));
}

// ---- transport ----------------------------------------------------------------------------------

api::Spec GpuSpec(const json::Json& gpus, int processes) {
  api::Spec spec = MakeJob(2).spec;
  spec.processes_per_replica = processes;
  EditPod(spec, [&gpus](json::Json& pod) {
    pod["containers"][0]["resources"]["limits"] = {{"cpu", "8"}, {"nvidia.com/gpu", gpus}};
  });
  return spec;
}

TEST(Transport, WarnsOfWhatMakesNcclSlow) {
  const PodRecord here = Pod(1, 0).Running();
  const PodRecord also_here = Pod(1, 1).Running();
  PodRecord elsewhere = also_here;
  elsewhere.node = "n2";
  const PodRecord unplaced = Pod(1, 1);
  const auto reason = [](const api::Spec& spec, const PodRecord& a, const PodRecord& b) {
    const auto trouble = FindTransportTrouble(spec, {&a, &b});
    return trouble ? trouble->reason : "";
  };
  EXPECT_EQ(reason(GpuSpec(1, 1), here, also_here), "OneGpuPodsShareNode");
  EXPECT_EQ(reason(GpuSpec("1", 1), here, also_here), "OneGpuPodsShareNode");
  EXPECT_EQ(reason(GpuSpec(1, 1), here, elsewhere), "");
  EXPECT_EQ(reason(GpuSpec(1, 1), here, unplaced), "") << "not told before all have a node";
  EXPECT_EQ(reason(GpuSpec(8, 8), here, also_here), "");
  EXPECT_EQ(reason(GpuSpec(8, 1), here, elsewhere), "GpuLimitDiffers");
  EXPECT_EQ(reason(GpuSpec(1, 8), here, unplaced), "GpuLimitDiffers");
  EXPECT_EQ(reason(MakeJob(2).spec, here, also_here), "") << "no GPUs";
}

// ---- nodes --------------------------------------------------------------------------------------

struct NodeWorld {
  NodeWorld() {
    observed.job = MakeJob(2);
    status.attempt = 1;
    status.phase = Phase::kRestarting;
  }
  void Failed(int code, const char* node) {
    api::Failure& failure = status.failures.emplace_back();
    failure.attempt = 1;
    failure.exit_code = code;
    failure.node = node;
    failure.time = kStart;
  }
  NodeQuestions At(base::Duration after) const {
    return NodesToAsk(observed, status, kStart + after);
  }
  Observed observed;
  api::Status status;
};

TEST(NodesToAsk, AreThoseOfPodsThatEndedWithoutAWord) {
  NodeWorld world;
  world.Failed(137, "n1");
  EXPECT_EQ(world.At(seconds(0)).next, kStart + seconds(55)) << "a dead kubelet shows after 50 s";
  EXPECT_THAT(world.At(seconds(55)).nodes, ElementsAre("n1"));
  world.observed.nodes["n1"] = {.time = kStart + seconds(55)};
  EXPECT_THAT(world.At(seconds(60)).nodes, IsEmpty());
  EXPECT_EQ(world.At(seconds(60)).next, kStart + seconds(180));
  EXPECT_THAT(world.At(seconds(180)).nodes, ElementsAre("n1"));
  EXPECT_THAT(world.At(minutes(7)).nodes, IsEmpty()) << "too late to move it";
}

TEST(NodesToAsk, AreNoneForAProgramsOwnEnd) {
  NodeWorld world;
  world.Failed(1, "n1");
  EXPECT_THAT(world.At(seconds(60)).nodes, IsEmpty());
  world.Failed(137, "n1");
  world.observed.nodes_can_fail = false;
  EXPECT_THAT(world.At(seconds(60)).nodes, IsEmpty());
}

TEST(NodesToAsk, OfALostPeerAreThoseOfPodsThatDoNotGo) {
  NodeWorld world;
  world.Failed(69, "n1");
  PodRecord dead = Pod(1, 1).Running().Deleted(kStart + seconds(5));
  dead.node = "n2";
  world.observed.pods = {dead};
  EXPECT_THAT(world.At(seconds(55)).nodes, ElementsAre("n1", "n2"));
}

TEST(PodsToForce, OnlyOnANodeThatIsGoneOrLongSilent) {
  NodeWorld world;
  world.observed.settings.force_delete_after = minutes(5);
  world.observed.pods = {Pod(1, 0).Running().Deleted(kStart), Pod(1, 1).Exited(1).Deleted(kStart)};
  const auto at = [&world](base::Duration after) {
    return PodsToForce(world.observed, kStart + after);
  };
  EXPECT_THAT(at(minutes(60)), IsEmpty()) << "nothing is known of the node";
  EXPECT_EQ(world.At(seconds(0)).next, kStart + seconds(302));
  EXPECT_THAT(world.At(seconds(302)).nodes, ElementsAre("n1"));
  world.observed.nodes["n1"] = {.time = kStart + minutes(6)};
  EXPECT_THAT(at(minutes(6)), IsEmpty()) << "its kubelet is alive: it will confirm";
  EXPECT_EQ(world.At(minutes(6)).next, kStart + minutes(11)) << "asked again";
  world.observed.nodes["n1"] = {
      .time = kStart + minutes(6), .unwell = true, .lost = true, .lost_since = kStart + minutes(2)};
  EXPECT_THAT(at(minutes(6)), IsEmpty());
  const ForceDeletePod expected{"mnist-1-0", "mnist-1-0-uid"};
  EXPECT_THAT(at(minutes(7)), ElementsAre(expected));
  world.observed.nodes["n1"].lost_since.reset();
  EXPECT_THAT(at(seconds(3)), ElementsAre(expected)) << "a node that is gone";
  world.observed.settings.force_delete_after.reset();
  EXPECT_THAT(at(minutes(60)), IsEmpty());
}

struct NodeCase {
  const char* name;
  const char* node;  // "": gone
  bool unwell;
  bool lost;
  bool since;
};

class ReadNodeTable : public ::testing::TestWithParam<NodeCase> {};

TEST_P(ReadNodeTable, Holds) {
  const NodeCase& c = GetParam();
  const json::Json node = *json::Parse(std::string_view(c.node).empty() ? "{}" : c.node);
  const NodeLook look = ReadNode(std::string_view(c.node).empty() ? nullptr : &node, kStart);
  EXPECT_EQ(look.unwell, c.unwell);
  EXPECT_EQ(look.lost, c.lost);
  EXPECT_EQ(look.lost_since.has_value(), c.since);
}

INSTANTIATE_TEST_SUITE_P(
    Nodes, ReadNodeTable,
    ::testing::Values(
        NodeCase{"gone", "", true, true, false},
        NodeCase{"well", R"({"status":{"conditions":[{"type":"Ready","status":"True"}]}})", false,
                 false, false},
        NodeCase{"not_ready", R"({"status":{"conditions":[{"type":"Ready","status":"False"}]}})",
                 true, false, false},
        NodeCase{"silent",
                 R"({"status":{"conditions":[{"type":"Ready","status":"Unknown",
                     "lastTransitionTime":"2026-01-02T03:04:05Z"}]}})",
                 true, true, true},
        NodeCase{"out_of_service",
                 R"({"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service"}]}})", true, true,
                 false}),
    [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace ddp::job
