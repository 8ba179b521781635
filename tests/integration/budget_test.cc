// What a job may cost the API server, counted in its audit log under exactly the manifests' role,
// leases and watches apart.
#include <map>

#include "tests/integration/scenario.h"

namespace ddp::integration {
namespace {

class BudgetTest : public Scenario {
 protected:
  static constexpr int kReplicas = 8;

  // The operator's requests in this test's namespace, but for the first `skip`.
  std::map<std::string, int> Requests() {
    std::map<std::string, int> requests;
    for (const auto& request : cluster_.OperatorRequests()) {
      if (request.name_space == namespace_ && request.verb != "watch") {
        ++requests[request.verb + " " + request.resource];
      }
    }
    return requests;
  }
  static int Sum(const std::map<std::string, int>& requests) {
    int sum = 0;
    for (const auto& [what, count] : requests) {
      sum += count;
    }
    return sum;
  }
  // Once nothing has been sent for two seconds.
  std::map<std::string, int> SettledRequests() {
    auto last = Requests();
    auto since = std::chrono::steady_clock::now();
    EXPECT_TRUE(Eventually(kLongest, [&] {
      if (auto now = Requests(); now != last) {
        last = std::move(now);
        since = std::chrono::steady_clock::now();
      }
      return std::chrono::steady_clock::now() - since >= seconds(2);
    }));
    return last;
  }
  static std::string Text(const std::map<std::string, int>& requests) {
    std::string text;
    for (const auto& [what, count] : requests) {
      text += std::to_string(count) + " " + what + ", ";
    }
    return text;
  }

  OperatorProcess operator_{cluster_.OperatorKubeconfig()};
};

TEST_F(BudgetTest, ALifeAndNothingHappeningInIt) {
  Create(Job(kReplicas));
  WaitForRunningAttempt(1, kReplicas);
  const auto started = SettledRequests();
  // Nothing happens: nothing is asked.
  EXPECT_EQ(Text(SettledRequests()), Text(started));
  EndAll(1, kReplicas, 0);
  WaitForPhase("Succeeded");
  const auto finished = SettledRequests();
  EXPECT_LE(Sum(finished), kReplicas + 8) << Text(finished);
  ExpectNoPodMadeTwice();
}

// From the end of one rank until all pods of the next attempt exist.
TEST_F(BudgetTest, ARestart) {
  Create(Job(kReplicas));
  WaitForRunningAttempt(1, kReplicas);
  const auto before = SettledRequests();
  kubelet_->SetStarting(false);
  ASSERT_TRUE(kubelet_->End(Pod(1, 3), 1));
  ASSERT_TRUE(Eventually(kLongest, [&] { return kubelet_->Ever().size() == 2U * kReplicas; }));
  const auto after = SettledRequests();
  EXPECT_LE(Sum(after) - Sum(before), kReplicas + 6)
      << Text(after) << "after " << Text(before) << operator_.Log();
  ExpectNoPodMadeTwice();
}

}  // namespace
}  // namespace ddp::integration
