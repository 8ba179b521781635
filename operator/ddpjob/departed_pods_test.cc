#include "operator/ddpjob/departed_pods.h"

#include <gtest/gtest.h>

namespace ddp::job {
namespace {

using std::chrono::minutes;

PodRecord Pod(const std::string& name) {
  PodRecord pod;
  pod.name = name;
  return pod;
}

std::vector<std::string> Names(const std::vector<PodRecord>& pods) {
  std::vector<std::string> names;
  for (const PodRecord& pod : pods) {
    names.push_back(pod.name);
  }
  return names;
}

using List = std::vector<std::string>;

TEST(DepartedPods, KeepsEachForAWhile) {
  base::FakeClock clock;
  DepartedPods departed(clock);
  departed.Saw("a", Pod("a-0"));
  clock.Advance(minutes(3));
  departed.Saw("a", Pod("a-1"));
  departed.Saw("b", Pod("b-0"));
  EXPECT_EQ(Names(departed.Of("a")), (List{"a-0", "a-1"}));
  clock.Advance(minutes(3));
  departed.Saw("c", Pod("c-0"));
  EXPECT_EQ(Names(departed.Of("a")), (List{"a-1"}));
  EXPECT_EQ(Names(departed.Of("b")), (List{"b-0"}));
  clock.Advance(minutes(6));
  departed.Saw("c", Pod("c-1"));
  EXPECT_EQ(Names(departed.Of("a")), List{});
  EXPECT_EQ(Names(departed.Of("c")), (List{"c-1"}));
}

TEST(DepartedPods, ForgetsAJobAndSweepsTheOthersRightAfterwards) {
  base::FakeClock clock;
  DepartedPods departed(clock);
  departed.Saw("a", Pod("a-0"));
  departed.Saw("b", Pod("b-0"));
  departed.Forget("a");
  EXPECT_EQ(Names(departed.Of("a")), List{});
  departed.Saw("a", Pod("a-1"));  // its job went first
  clock.Advance(minutes(6));
  departed.Saw("b", Pod("b-1"));
  EXPECT_EQ(Names(departed.Of("a")), List{});
  EXPECT_EQ(Names(departed.Of("b")), (List{"b-1"}));
}

}  // namespace
}  // namespace ddp::job
