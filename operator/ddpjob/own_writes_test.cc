#include "operator/ddpjob/own_writes.h"

#include <gtest/gtest.h>

namespace ddp::job {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

PodRecord Pod(const std::string& name, const std::string& uid) {
  PodRecord pod;
  pod.name = name;
  pod.uid = uid;
  return pod;
}

api::DDPJob Job(const std::string& version, int attempt) {
  api::DDPJob job;
  job.metadata.uid = "job";
  job.metadata.resource_version = version;
  job.status.attempt = attempt;
  return job;
}

class OwnWritesTest : public ::testing::Test {
 protected:
  std::vector<PodRecord> View(std::vector<PodRecord> cached = {}) {
    writes_.Overlay("job", cached);
    return cached;
  }
  int NewestAttempt(const api::DDPJob& cached) {
    api::DDPJob storage;
    return writes_.Newest(cached, storage).status.attempt;
  }

  base::FakeClock clock_;
  OwnWrites writes_{clock_};
};

TEST_F(OwnWritesTest, ACreatedPodIsThereUntilTheWatchTakesOver) {
  writes_.WillCreatePod("job", "p");
  EXPECT_TRUE(View().empty());
  writes_.CreatedPod("job", Pod("p", "u1"));
  ASSERT_EQ(View().size(), 1U);
  EXPECT_EQ(View({Pod("p", "u1")}).size(), 1U);
  writes_.SawPod("job", "p", "u1", false);
  EXPECT_TRUE(View().empty());
}

TEST_F(OwnWritesTest, AnEventThatOvertakesTheAnswerCounts) {
  writes_.WillCreatePod("job", "p");
  writes_.SawPod("job", "p", "u1", false);
  writes_.SawPod("job", "p", "u1", true);  // made and deleted before the answer was read
  writes_.CreatedPod("job", Pod("p", "u1"));
  EXPECT_TRUE(View().empty());
}

TEST_F(OwnWritesTest, EventsOfAnOlderPodOfTheNameDoNotCount) {
  writes_.WillCreatePod("job", "p");
  writes_.SawPod("job", "p", "old", true);
  writes_.CreatedPod("job", Pod("p", "u1"));
  EXPECT_EQ(View().size(), 1U);
}

TEST_F(OwnWritesTest, WhatNeverShowsIsBelievedForFiveMinutes) {
  writes_.WillCreatePod("job", "p");
  writes_.CreatedPod("job", Pod("p", "u1"));
  writes_.CreatedService("job", "s1");
  clock_.Advance(minutes(5) - seconds(1));
  EXPECT_EQ(View().size(), 1U);
  EXPECT_TRUE(writes_.HasService("job"));
  clock_.Advance(seconds(1));
  EXPECT_TRUE(View().empty());
  EXPECT_FALSE(writes_.HasService("job"));
}

TEST_F(OwnWritesTest, ADeletedPodIsMarkedUntilTheWatchShowsIt) {
  const auto gone_by = clock_.Now() + seconds(5);
  writes_.WillDelete("job", {"u1"}, gone_by);
  EXPECT_EQ(View({Pod("p", "u1")})[0].deletion_time, gone_by);
  writes_.SawPod("job", "p", "u1", false);  // an update that is older than the deletion
  EXPECT_EQ(View({Pod("p", "u1")})[0].deletion_time, gone_by);
  writes_.SawPod("job", "p", "u1", true);
  EXPECT_FALSE(View({Pod("p", "u1")})[0].deletion_time);
}

TEST_F(OwnWritesTest, ADeletionThatFailedIsTakenBack) {
  writes_.WillDelete("job", {"u1"}, clock_.Now());
  writes_.DidNotDelete("job", {"u1"});
  EXPECT_FALSE(View({Pod("p", "u1")})[0].deletion_time);
}

TEST_F(OwnWritesTest, TheStatusWeWroteHoldsUntilTheCacheHasIt) {
  EXPECT_EQ(NewestAttempt(Job("10", 1)), 1);
  writes_.WroteStatus("10", Job("11", 2));
  writes_.WroteStatus("11", Job("12", 3));
  EXPECT_EQ(NewestAttempt(Job("10", 1)), 3);
  EXPECT_EQ(NewestAttempt(Job("11", 2)), 3);
  EXPECT_EQ(NewestAttempt(Job("13", 4)), 4);  // somebody wrote after us
  EXPECT_EQ(NewestAttempt(Job("13", 4)), 4);
}

TEST_F(OwnWritesTest, NothingIsKeptOfAJobThatIsGone) {
  writes_.WillCreatePod("job", "p");
  writes_.CreatedPod("job", Pod("p", "u1"));
  writes_.WroteStatus("10", Job("11", 2));
  writes_.Forget("job");
  EXPECT_TRUE(View().empty());
  EXPECT_EQ(NewestAttempt(Job("10", 1)), 1);
}

}  // namespace
}  // namespace ddp::job
