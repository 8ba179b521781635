// Progress that the operator pulls, with rank 0 played by an HTTP server on loopback (the fake
// kubelet gives every pod that address).
#include <fmt/format.h>

#include "operator/kube/fake_server.h"
#include "tests/integration/scenario.h"

namespace ddp::integration {
namespace {

using json::Json;
using kube::FakeConnection;
using kube::FakeServer;
using ::testing::HasSubstr;
using ::testing::Not;

int PortOf(const FakeServer& server) {
  return std::stoi(server.url().substr(server.url().rfind(':') + 1));
}

class ProgressTest : public Scenario {
 protected:
  static Json JobAt(const FakeServer& rank0, int replicas, const Json& progress = Json::object()) {
    Json spec = {{"port", PortOf(rank0)}};
    spec.update(progress);
    return Job(replicas, {{"progress", spec}});
  }
  Json Status() { return Read(kJobs, "train")["status"]; }
  std::string ConditionOf(const std::string& type) {
    const Json status = Status();
    for (const Json& condition : status.value("conditions", Json::array())) {
      if (condition["type"] == type) {
        return condition["status"].get<std::string>() + " " +
               condition["message"].get<std::string>();
      }
    }
    return "";
  }
  OperatorProcess operator_{cluster_.OperatorKubeconfig(), {"--job-metrics"}};
};

TEST_F(ProgressTest, StepAndCheckpointComeIntoTheStatusAndTheTable) {
  std::atomic<int> step{40};
  std::atomic<int> checkpoint{20};
  FakeServer rank0([&](FakeConnection& connection) {
    if (connection.ReadRequest()) {
      connection.Reply(200, fmt::format(R"({{"step":{0},"totalSteps":100,"percent":{0},"loss":0.5,)"
                                        R"("etaSeconds":60,"checkpoint":{{"step":{1},)"
                                        R"("time":"2026-01-02T03:04:05Z"}}}})",
                                        step.load(), checkpoint.load()));
    }
  });
  Create(JobAt(rank0, 2));
  WaitForRunningAttempt(1, 2);
  EXPECT_TRUE(Eventually(kLongest, [&] {
    return json::GetInt(Status(), {"progress", "step"}) == 40;
  })) << Status().dump(1);
  EXPECT_EQ(json::GetInt(Status(), {"checkpoint", "step"}), 20);
  EXPECT_TRUE(Eventually(kLongest, [&] {
    return ConditionOf("ProgressAvailable").starts_with("True");
  })) << Status().dump(1);
  const std::string table = cluster_.Kubectl({"get", "ddp", "-n", namespace_});
  EXPECT_THAT(table, HasSubstr("STEP"));
  EXPECT_THAT(table, HasSubstr("40"));
  // A newer checkpoint is told at once, not after ten seconds.
  const auto start = std::chrono::steady_clock::now();
  step = 61;
  checkpoint = 60;
  EXPECT_TRUE(Eventually(kLongest, [&] {
    return json::GetInt(Status(), {"checkpoint", "step"}) == 60;
  }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(15));
  EndAll(1, 2, 0);
  WaitForPhase("Succeeded");
}

TEST_F(ProgressTest, AStalledGroupRestartsAndThatIsCountedAsAStall) {
  FakeServer rank0([](FakeConnection& connection) {
    if (connection.ReadRequest()) {
      connection.Reply(200, R"({"step":7})");
    }
  });
  Create(JobAt(rank0, 2, {{"stallTimeoutSeconds", 3}, {"onStall", "Restart"}}));
  WaitForRunningAttempt(1, 2);
  WaitForRunningAttempt(2, 2);
  EXPECT_GE(Restarts("stall"), 1);
  EXPECT_EQ(Restarts("application"), 0);
}

// A rank 0 that redirects, lies and talks without end: the operator goes on with everybody else.
TEST_F(ProgressTest, AHostilePodHurtsNobody) {
  std::atomic<int> asked{0};
  FakeServer elsewhere([&asked](FakeConnection& connection) {
    ++asked;
    connection.WaitForPeerToClose();
  });
  std::atomic<int> turn{0};
  FakeServer rank0([&](FakeConnection& connection) {
    if (!connection.ReadRequest()) {
      return;
    }
    switch (turn++ % 4) {
      case 0:
        connection.Reply(302, "", "Location: " + elsewhere.url() + "/\r\n");
        break;
      case 1:
        connection.Write("HTTP/1.1 200 OK\r\n\r\n");
        while (connection.Write(std::string(65'536, 'x'))) {
        }
        break;
      case 2:
        connection.Reply(200, std::string(60'000, '['));
        break;
      default:
        connection.WaitForPeerToClose();
    }
  });
  Create(JobAt(rank0, 1));
  WaitForRunningAttempt(1, 1);
  EXPECT_TRUE(Eventually(kLongest, [&] { return turn >= 4; }));
  EXPECT_EQ(asked, 0) << "a redirect was followed";
  EXPECT_FALSE(Status().contains("progress"));
  EXPECT_TRUE(operator_.process().Running());
  EndAll(1, 1, 0);
  WaitForPhase("Succeeded");
}

TEST(DryRun, WritesNothing) {
  class World : public Scenario {
   public:
    World() = default;
    void TestBody() override {}
    using Scenario::Create;
    using Scenario::Job;
    using Scenario::kubelet_;
    using Scenario::namespace_;
    using Scenario::Read;
  };
  World world;
  OperatorProcess dry_run(Cluster::Get().OperatorKubeconfig(),
                          {"--dry-run", "--leader-elect", "--namespace", world.namespace_});
  world.Create(World::Job(2));
  EXPECT_TRUE(Eventually(seconds(30), [&] {
    return dry_run.Log().find("create the pods of attempt 1: 0-1") != std::string::npos;
  })) << dry_run.Log();
  EXPECT_FALSE(world.Read(kJobs, "train").contains("status"));
  EXPECT_TRUE(world.kubelet_->Ever().empty());
  for (const auto& request : Cluster::Get().OperatorRequests()) {
    if (request.name_space == world.namespace_) {
      EXPECT_THAT(request.verb, ::testing::AnyOf("get", "list", "watch"));
    }
  }
  dry_run.process().Signal(SIGTERM);
  EXPECT_EQ(dry_run.process().Wait(seconds(15)), 0);
}

}  // namespace
}  // namespace ddp::integration
