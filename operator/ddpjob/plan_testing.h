// For tests of the plan: one job and its pods; Step() plans and takes the status over, as a body
// does.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "operator/ddpjob/testing.h"

namespace ddp::job::testing {

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    world_.job = MakeJob(2);
    world_.service = ServiceState::kOurs;
  }

  Plan Step(base::Duration after = base::Duration::zero()) {
    now_ += after;
    Plan plan = MakePlan(world_, now_);
    world_.job.status = plan.status;
    return plan;
  }

  // Attempt 1 runs on all ranks.
  void StartRunning() {
    Step();
    world_.pods = {Pod(1, 0).Running(), Pod(1, 1).Running()};
    Step();
    ASSERT_EQ(status().phase, api::Phase::kRunning);
  }

  // What rank 0 told just now.
  void Tell(int64_t step, std::optional<int64_t> checkpoint = std::nullopt) {
    ProgressPull pull{.attempt = status().attempt, .ok = true, .error = "", .time = now_};
    pull.progress.step = step;
    if (checkpoint) {
      pull.checkpoint = api::CheckpointState{*checkpoint, std::nullopt};
    }
    world_.progress = pull;
  }

  const api::Status& status() const { return world_.job.status; }
  std::string Message(const char* type) const {
    const api::Condition* condition = api::FindCondition(status(), type);
    return condition == nullptr ? "" : condition->message;
  }
  // "True Reason"; "" without the condition.
  std::string State(const char* type) const {
    const api::Condition* condition = api::FindCondition(status(), type);
    return condition == nullptr ? ""
                                : std::string(Name(condition->status)) + " " + condition->reason;
  }
  std::string Reason(const char* type) const {
    const api::Condition* condition = api::FindCondition(status(), type);
    return condition == nullptr ? "" : condition->reason;
  }

  Observed world_;
  TimePoint now_ = kStart;
};

}  // namespace ddp::job::testing
