#include "operator/ddpjob/conditions.h"

#include <gtest/gtest.h>

#include "operator/ddpjob/testing.h"

namespace ddp::job {
namespace {

api::Status Done(int attempt, const char* ranks, std::optional<TimePoint> pods_created = {}) {
  api::Status status;
  status.attempt = attempt;
  status.succeeded_ranks = *api::RankSet::Parse(ranks);
  status.pods_created_time = pods_created;
  return status;
}

TEST(AddUnwritten, NeverTakesBackWhatTheStoredStatusKnows) {
  const TimePoint created = testing::kStart;
  const TimePoint later = testing::kStart + std::chrono::seconds(3);
  const struct {
    api::Status unwritten, stored, expected;
  } kRows[] = {
      {Done(1, "0-1"), Done(1, ""), Done(1, "0-1")},
      // the write that came after was stored, but its answer lost
      {Done(1, "0-1"), Done(1, "0-2"), Done(1, "0-2")},
      {Done(1, "1"), Done(1, "3"), Done(1, "1,3")},
      {Done(1, "", created), Done(1, ""), Done(1, "", created)},
      {Done(1, ""), Done(1, "", created), Done(1, "", created)},
      {Done(1, "", later), Done(1, "", created), Done(1, "", created)},
  };
  for (const auto& row : kRows) {
    api::Status status = row.stored;
    EXPECT_TRUE(AddUnwritten(row.unwritten, status));
    EXPECT_EQ(status, row.expected) << status.succeeded_ranks.ToString();
  }
}

TEST(AddUnwritten, SaysNothingOfAnotherAttempt) {
  api::Status status = Done(2, "");
  EXPECT_FALSE(AddUnwritten(Done(1, "0-2"), status));
  EXPECT_EQ(status, Done(2, ""));
}

}  // namespace
}  // namespace ddp::job
