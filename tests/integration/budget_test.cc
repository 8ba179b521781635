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

TEST_F(BudgetTest, ALifeARestartAndNothingHappening) {
  Create(Job(kReplicas));
  WaitForRunningAttempt(1, kReplicas);
  const auto started = SettledRequests();

  // Nothing happens: nothing is asked.
  EXPECT_EQ(Text(SettledRequests()), Text(started));

  ASSERT_TRUE(kubelet_->End(Pod(1, 3), 1));
  WaitForRunningAttempt(2, kReplicas);
  const auto restarted = SettledRequests();
  EXPECT_LE(Sum(restarted) - Sum(started), kReplicas + 6)
      << "a restart: " << Text(restarted) << "after " << Text(started);

  EndAll(2, kReplicas, 0);
  WaitForPhase("Succeeded");
  const auto finished = SettledRequests();
  // The life without the restart.
  EXPECT_LE(Sum(finished) - (Sum(restarted) - Sum(started)), kReplicas + 8) << Text(finished);
  EXPECT_EQ(finished.count("list pods"), 0U);
  ExpectNoPodMadeTwice();
}

}  // namespace
}  // namespace ddp::integration
