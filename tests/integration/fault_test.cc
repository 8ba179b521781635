// What happens around a job: API server, network and operator fail. The state of the world at the
// end must be that of a calm run: no pod made twice, each failure counted once.
#include <csignal>
#include <cstdlib>
#include <random>

#include "operator/kube/config.h"
#include "tests/integration/fault_proxy.h"
#include "tests/integration/scenario.h"
#include "tests/integration/tcp_proxy.h"

namespace ddp::integration {
namespace {

using FaultTest = Scenario;

TEST_F(FaultTest, TheApiServerIsRestartedUnderTheOperator) {
  const OperatorProcess under_test(cluster_.OperatorKubeconfig());
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  cluster_.RestartApiServer();
  ASSERT_TRUE(Eventually(kLongest, [&] { return kubelet_->End(Pod(1, 0), 1); }));
  WaitForRunningAttempt(2, 2);
  EXPECT_EQ(Restarts("application"), 1);
  EndAll(2, 2, 0);
  WaitForPhase("Succeeded");
  ExpectNoPodMadeTwice();
}

TEST_F(FaultTest, WatchesAreCutAgainAndAgain) {
  TcpProxy proxy(cluster_.port());
  const OperatorProcess under_test(
      cluster_.OperatorKubeconfig("https://127.0.0.1:" + std::to_string(proxy.port())));
  Create(Job(3));
  ASSERT_TRUE(Eventually(kLongest, [&] { return !kubelet_->Ever().empty(); }));
  proxy.CutAll();
  WaitForRunningAttempt(1, 3);

  // What happens while the operator is blind must be seen afterwards: a pod deleted for good.
  proxy.SetAccepting(false);
  proxy.CutAll();
  kube::DeleteOptions now;
  now.grace_seconds = 0;
  ASSERT_TRUE(admin_.Delete(kPods, namespace_, Pod(1, 2), now));
  proxy.SetAccepting(true);
  WaitForRunningAttempt(2, 3);
  EXPECT_EQ(Restarts("infrastructure"), 1);

  proxy.CutAll();
  EndAll(2, 3, 0);
  WaitForPhase("Succeeded");
  EXPECT_GE(proxy.cut(), 3);
  ExpectNoPodMadeTwice();
}

// A server without watch-list streaming is listed, page by page; everything else is the same.
TEST_F(FaultTest, AnOlderServerIsListed) {
  const std::string kubeconfig = cluster_.OperatorKubeconfig();
  auto config = kube::LoadKubeconfig(kubeconfig);
  ASSERT_TRUE(config);
  std::shared_ptr<kube::HttpTransport> transport =
      kube::MakeHttpTransport(config->ToTransportOptions("fault-proxy")).value();
  const FaultProxy proxy(transport, [](const std::string& /*method*/, const std::string& target) {
    return target.find("sendInitialEvents") != std::string::npos ? Fault::kRefuseList
                                                                 : Fault::kNone;
  });
  const OperatorProcess under_test(cluster_.OperatorKubeconfig(proxy.url()));
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  EXPECT_GE(proxy.faults(), 3);
}

unsigned Seed() {
  const char* given = std::getenv("DDP_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                          : std::random_device{}();
}

// The operator dies at random moments of a job that fails three times; at the end nothing may show
// it.
TEST_F(FaultTest, TheOperatorIsKilledAtRandomMoments) {
  constexpr int kReplicas = 4;
  constexpr int kFailures = 3;
  const unsigned seed = Seed();
  SCOPED_TRACE("DDP_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string kubeconfig = cluster_.OperatorKubeconfig();
  Create(Job(kReplicas, {{"restart", {{"maxRestarts", 10}, {"maxBackoffSeconds", 1}}}}));
  int deaths = 0;
  int failed = 0;
  const auto finished = [&] {
    const std::string phase = Phase();
    return phase == "Succeeded" || phase == "Failed";
  };
  const auto play = [&] {  // one step of the job's own life
    const json::Json status = Read(kJobs, "train")["status"];
    const auto attempt = static_cast<int>(json::GetInt(status, {"attempt"}));
    if (json::GetString(status, {"phase"}) == "Running" && attempt == failed + 1) {
      if (failed < kFailures) {
        failed += kubelet_->End(Pod(attempt, static_cast<int>(random() % kReplicas)), 1) ? 1 : 0;
      } else {
        for (int rank = 0; rank < kReplicas; ++rank) {
          kubelet_->End(Pod(attempt, rank), 0);
        }
      }
    }
  };
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  while (!finished() && std::chrono::steady_clock::now() < end) {
    OperatorProcess mortal(kubeconfig);
    const milliseconds life(50 + random() % 1200);
    Eventually(life, [&] {
      play();
      return finished();
    });
    mortal.process().Signal(SIGKILL);
    ASSERT_TRUE(mortal.process().Wait(seconds(10)));
    ++deaths;
  }
  EXPECT_EQ(Phase(), "Succeeded") << Read(kJobs, "train")["status"].dump(1);
  EXPECT_EQ(Attempt(), kFailures + 1);
  EXPECT_EQ(Restarts("application"), kFailures);
  EXPECT_EQ(Restarts("infrastructure"), 0);
  EXPECT_GT(deaths, 2);
  ExpectNoPodMadeTwice();
  EXPECT_EQ(kubelet_->Ever().size(), static_cast<size_t>(kReplicas * (kFailures + 1)));
}

class ElectionTest : public Scenario {
 protected:
  std::string Holder() {
    const kube::Resource leases{"coordination.k8s.io", "v1", "leases", "Lease"};
    auto lease = admin_.Get(leases, "ddp-system", "ddp-operator");
    return lease ? json::GetString(*lease, {"spec", "holderIdentity"}) : "";
  }
  const std::string kubeconfig_ = cluster_.OperatorKubeconfig();
};

TEST_F(ElectionTest, OneOfTwoActsAndTheOtherTakesOver) {
  auto first =
      std::make_unique<OperatorProcess>(kubeconfig_, std::vector<std::string>{"--leader-elect"});
  ASSERT_TRUE(Eventually(kLongest, [&] { return !Holder().empty(); }));
  const std::string leader = Holder();
  auto second =
      std::make_unique<OperatorProcess>(kubeconfig_, std::vector<std::string>{"--leader-elect"});
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  EXPECT_EQ(Holder(), leader);
  EXPECT_EQ(second->Log().find("job event"), std::string::npos) << "the standby acted";

  // A leader that stops hands over at once.
  first->process().Signal(SIGTERM);
  EXPECT_EQ(first->process().Wait(seconds(15)), 0);
  ASSERT_TRUE(Eventually(seconds(10), [&] { return !Holder().empty() && Holder() != leader; }));
  ASSERT_TRUE(kubelet_->End(Pod(1, 0), 1));
  WaitForRunningAttempt(2, 2);

  // One that dies is followed once its lease has run out.
  const std::string next = Holder();
  second->process().Signal(SIGKILL);
  first =
      std::make_unique<OperatorProcess>(kubeconfig_, std::vector<std::string>{"--leader-elect"});
  ASSERT_TRUE(kubelet_->End(Pod(2, 1), 1));
  ASSERT_TRUE(Eventually(seconds(25), [&] { return Holder() != next; }));
  WaitForRunningAttempt(3, 2);
  EXPECT_EQ(Restarts("application"), 2);
  EndAll(3, 2, 0);
  WaitForPhase("Succeeded");
  ExpectNoPodMadeTwice();
}

}  // namespace
}  // namespace ddp::integration
