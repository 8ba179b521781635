#include "operator/controller/leader_elector.h"

#include <gtest/gtest.h>

namespace ddp::controller {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::LeaseRecord;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Role = LeaderElector::Role;

// A lease as an API server keeps it: compare-and-swap by resource version.
class FakeLease : public kube::LeaseClient {
 public:
  ApiResult<LeaseRecord> Get(milliseconds deadline) override {
    last_deadline = deadline;
    if (failure) {
      return *failure;
    }
    return stored ? ApiResult<LeaseRecord>(*stored) : Error(base::ErrorCode::kNotFound);
  }
  ApiResult<LeaseRecord> Create(const LeaseRecord& record, milliseconds /*deadline*/) override {
    if (failure || stored) {
      return failure ? *failure : Error(base::ErrorCode::kAlreadyExists);
    }
    return Store(record);
  }
  ApiResult<LeaseRecord> Update(const LeaseRecord& record, milliseconds deadline) override {
    last_deadline = deadline;
    if (failure) {
      return *failure;
    }
    if (!stored || stored->resource_version != record.resource_version) {
      return Error(base::ErrorCode::kConflict);
    }
    return Store(record);
  }
  static ApiError Error(base::ErrorCode code) {
    ApiError error;
    error.code = code;
    return error;
  }

  std::optional<LeaseRecord> stored;
  std::optional<ApiError> failure;
  milliseconds last_deadline{};

 private:
  LeaseRecord Store(LeaseRecord record) {
    record.resource_version = std::to_string(++version_);
    stored = record;
    return record;
  }
  int version_ = 0;
};

class Election : public ::testing::Test {
 protected:
  FakeLease lease_;
  base::FakeClock clock_;
  LeaderElector a_{lease_, {"a"}, clock_};
  LeaderElector b_{lease_, {"b"}, clock_};
};

TEST_F(Election, OneOfTwoLeads) {
  EXPECT_EQ(a_.Tick(), Role::kLeader);
  EXPECT_EQ(b_.Tick(), Role::kFollower);
  EXPECT_EQ(lease_.stored->holder, "a");
  EXPECT_EQ(lease_.stored->duration, seconds(15));
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(seconds(2));
    EXPECT_EQ(a_.Tick(), Role::kLeader);
    EXPECT_EQ(b_.Tick(), Role::kFollower);
  }
  EXPECT_EQ(lease_.stored->transitions, 0);
}

TEST_F(Election, TheOtherTakesOverOnceTheLeaseRanOutByItsOwnClock) {
  a_.Tick();
  b_.Tick();
  clock_.Advance(milliseconds(14'999));
  EXPECT_EQ(b_.Tick(), Role::kFollower);
  clock_.Advance(milliseconds(1));
  EXPECT_EQ(b_.Tick(), Role::kLeader);
  EXPECT_EQ(lease_.stored->transitions, 1);
  EXPECT_EQ(a_.Tick(), Role::kLost);
  EXPECT_EQ(a_.Tick(), Role::kFollower);
}

TEST_F(Election, TimesWrittenInTheRecordDoNotMatter) {
  LeaseRecord old;
  old.holder = "x";
  old.duration = seconds(15);
  old.renew_time = base::TimePoint{};  // 1970
  old.resource_version = "0";
  lease_.stored = old;
  EXPECT_EQ(a_.Tick(), Role::kFollower);
  clock_.Advance(seconds(15));
  EXPECT_EQ(a_.Tick(), Role::kLeader);
}

TEST_F(Election, AReleasedLeaseIsTakenAtOnce) {
  a_.Tick();
  b_.Tick();
  a_.Release();
  EXPECT_EQ(b_.Tick(), Role::kLeader);
}

TEST_F(Election, ALeaderThatCannotRenewGivesUpBeforeItsLeaseEnds) {
  a_.Tick();
  lease_.failure = FakeLease::Error(base::ErrorCode::kUnavailable);
  clock_.Advance(seconds(2));
  EXPECT_EQ(a_.Tick(), Role::kLeader);
  EXPECT_EQ(lease_.last_deadline, seconds(5));
  clock_.Advance(seconds(7));
  EXPECT_EQ(a_.Tick(), Role::kLeader);
  EXPECT_EQ(lease_.last_deadline, seconds(1));
  EXPECT_EQ(a_.Health(), "");
  clock_.Advance(seconds(1));
  EXPECT_EQ(a_.Tick(), Role::kLost);
}

TEST_F(Election, AShortOutageIsSurvived) {
  a_.Tick();
  lease_.failure = FakeLease::Error(base::ErrorCode::kUnavailable);
  clock_.Advance(seconds(8));
  EXPECT_EQ(a_.Tick(), Role::kLeader);
  lease_.failure.reset();
  EXPECT_EQ(a_.Tick(), Role::kLeader);
  clock_.Advance(seconds(9));
  EXPECT_EQ(a_.Tick(), Role::kLeader);
}

TEST_F(Election, ALeaseWrittenByHandIsNoLoss) {
  a_.Tick();
  lease_.stored->resource_version = "edited";
  EXPECT_EQ(a_.Tick(), Role::kLeader);  // conflict: reads
  EXPECT_EQ(a_.Tick(), Role::kLeader);
  EXPECT_NE(lease_.stored->resource_version, "edited");
}

TEST_F(Election, HealthTellsOfALeaderThatIsStuck) {
  a_.Tick();
  clock_.Advance(seconds(16));
  EXPECT_NE(a_.Health(), "");
  EXPECT_EQ(b_.Health(), "");
}

TEST_F(Election, AcquireAndHoldHeedAStop) {
  std::stop_source stop;
  EXPECT_TRUE(a_.Acquire(stop.get_token()));
  stop.request_stop();
  EXPECT_TRUE(a_.Hold(stop.get_token()));
  EXPECT_FALSE(b_.Acquire(stop.get_token()));
}

}  // namespace
}  // namespace ddp::controller
