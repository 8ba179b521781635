// kubectl-ddp against a real API server, with the operator at work.
#include <fmt/format.h>

#include "operator/cli/exit_codes.h"
#include "operator/controller/http_server.h"
#include "tests/integration/scenario.h"

namespace ddp::integration {
namespace {

using json::Json;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Said {
  int code = -1;
  std::string text;
};

Said RunProgram(const std::vector<std::string>& command) {
  const std::string log = Cluster::Get().FileName("program");
  Process process(command, log);
  const auto code = process.Wait(seconds(60));
  return {code.value_or(-1), ReadFile(log)};
}

class CliTest : public Scenario {
 protected:
  std::vector<std::string> Command(std::vector<std::string> words) const {
    words.insert(words.begin(), DDP_KUBECTL_DDP);
    words.insert(words.end(), {"-n", namespace_, "--kubeconfig", cluster_.AdminKubeconfig()});
    return words;
  }
  Said Cli(const std::vector<std::string>& words) const { return RunProgram(Command(words)); }
  // The API server asks the node's kubelet for logs: here `tell`, by the path of the question.
  class LogServer {
   public:
    LogServer(CliTest& test, const std::function<std::string(const std::string&)>& tell)
        : admin_(test.admin_) {
      const std::string pki = test.cluster_.AdminKubeconfig();
      const std::string folder = pki.substr(0, pki.rfind('/')) + "/pki/";
      controller::HttpServer::Options serving;
      serving.tls.emplace(
          controller::HttpServer::Tls{folder + "apiserver.crt", folder + "apiserver.key"});
      auto server = controller::HttpServer::Start(serving, [tell](const auto& question) {
        return controller::HttpAnswer{200, "text/plain", tell(std::string(question.path)), false};
      });
      EXPECT_TRUE(server) << server.error().message;
      server_ = *std::move(server);
      const Json endpoint = {{"kubeletEndpoint", {{"Port", server_->port()}}}};
      const Json address = {{"type", "InternalIP"}, {"address", "127.0.0.1"}};
      (void)admin_.Create(
          nodes_, "", {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "node-0"}}}});
      EXPECT_TRUE(admin_.Patch(
          nodes_, "", "node-0", kube::PatchType::kMerge,
          {{"status", {{"addresses", {address}}, {"daemonEndpoints", endpoint}}}}, "status"));
    }
    LogServer(const LogServer&) = delete;
    LogServer& operator=(const LogServer&) = delete;
    ~LogServer() { (void)admin_.Delete(nodes_, "", "node-0"); }

   private:
    const kube::Resource nodes_{"", "v1", "nodes", "Node"};
    kube::Client& admin_;
    std::unique_ptr<controller::HttpServer> server_;
  };

  OperatorProcess operator_{cluster_.OperatorKubeconfig()};
};

TEST_F(CliTest, StatusShowsAJobAsItIs) {
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  Said said;
  // Events come a moment after the status.
  EXPECT_TRUE(Eventually(kLongest, [&] {
    said = Cli({"status", "train"});
    return said.code != 0 || said.text.find("AllRanks") != std::string::npos ||
           said.text.find("every rank has started") != std::string::npos;
  }));
  EXPECT_EQ(said.code, cli::kExitOk) << said.text;
  EXPECT_THAT(said.text, AllOf(HasSubstr(namespace_ + "/train: Running, attempt 1"),
                               HasSubstr("pods: 2/2 ready"), HasSubstr("train-1-1  node-0  ready"),
                               HasSubstr("events:")));

  const Said object = Cli({"status", "train", "-o", "json"});
  const auto job = json::Parse(object.text);
  ASSERT_TRUE(job) << object.text;
  EXPECT_EQ(json::GetString(*job, {"status", "phase"}), "Running");
  EXPECT_THAT(Cli({"status", "train", "-o", "yaml"}).text, HasSubstr("kind: DDPJob"));
}

TEST_F(CliTest, StatusWaitsAndItsExitCodeTellsHowItEnded) {
  Create(Job(1));
  const Said running = Cli({"status", "train", "--wait=Running", "--timeout", "30s"});
  EXPECT_EQ(running.code, cli::kExitOk) << running.text;
  const Said late = Cli({"status", "train", "--wait", "--timeout", "1s"});
  EXPECT_EQ(late.code, cli::kExitDeadline) << late.text;
  EXPECT_THAT(late.text, HasSubstr("'train' is Running"));

  const std::string log = cluster_.FileName("waiting");
  Process waiting(Command({"status", "train", "--wait"}), log);
  EndAll(1, 1, 0);
  EXPECT_EQ(waiting.Wait(seconds(30)), cli::kExitOk) << ReadFile(log);
  EXPECT_THAT(ReadFile(log), HasSubstr("train: Succeeded"));
}

TEST_F(CliTest, StatusOfAFailedJobSaysWhyAndEndsWithOneWhenWaitedFor) {
  Create(Job(1, {{"restart", {{"maxRestarts", 0}}}}));
  WaitForRunningAttempt(1, 1);
  ASSERT_TRUE(kubelet_->End(Pod(1, 0), 78));
  const Said said = Cli({"status", "train", "--wait", "--timeout", "30s"});
  EXPECT_EQ(said.code, cli::kExitJobFailed) << said.text;
  EXPECT_THAT(said.text, AllOf(HasSubstr("Failed"), HasSubstr("last failure: attempt 1, rank 0"),
                               HasSubstr("  | the last line of its log")));
  EXPECT_EQ(Cli({"status", "train"}).code, cli::kExitOk);
  EXPECT_EQ(Cli({"suspend", "train"}).code, cli::kExitInvalid);
  EXPECT_THAT(Cli({"restart", "train"}).text, HasSubstr("can't restart 'train': it has ended"));
}

TEST_F(CliTest, SaysWhatIsWrong) {
  Create(Job(1));
  const Said typo = Cli({"status", "trian"});
  EXPECT_EQ(typo.code, cli::kExitNoInput);
  EXPECT_THAT(typo.text, AllOf(HasSubstr("there is no DDPJob 'trian' in namespace"),
                               HasSubstr("Did you mean 'train'?")));
  EXPECT_EQ(Cli({"status"}).code, cli::kExitUsage);
  EXPECT_EQ(Cli({"status", "train", "--wait=Somewhere"}).code, cli::kExitUsage);
  EXPECT_EQ(Cli({"status", "train", "--timeout", "soon"}).code, cli::kExitUsage);
  EXPECT_EQ(Cli({"logs", "train", "--rank", "7"}).code, cli::kExitUsage);
  EXPECT_EQ(Cli({"status", "train", "--context", "nowhere"}).code, cli::kExitUnavailable);

  cluster_.Kubectl({"create", "serviceaccount", "nobody", "-n", namespace_});
  const std::string said = cluster_.Kubectl({"create", "token", "nobody", "-n", namespace_});
  const std::string token = said.substr(0, said.find('\n'));
  const std::string kubeconfig = cluster_.OperatorKubeconfig();
  Json as_nobody = *json::Parse(ReadFile(kubeconfig));
  as_nobody["users"][0]["user"]["token"] = token;
  WriteFile(kubeconfig, json::Dump(as_nobody));
  const Said forbidden = RunProgram(
      {DDP_KUBECTL_DDP, "suspend", "train", "-n", namespace_, "--kubeconfig", kubeconfig});
  EXPECT_EQ(forbidden.code, cli::kExitNoPermission) << forbidden.text;
  EXPECT_THAT(forbidden.text, HasSubstr("you may not do this"));
}

TEST_F(CliTest, SuspendsResumesAndRestarts) {
  Create(Job(2));
  WaitForRunningAttempt(1, 2);
  Said said = Cli({"suspend", "train", "--wait", "--timeout", "30s"});
  EXPECT_EQ(said.code, cli::kExitOk) << said.text;
  EXPECT_THAT(said.text, HasSubstr("train: Suspended"));
  EXPECT_TRUE(Eventually(kLongest, [&] { return kubelet_->Running().empty(); }));
  EXPECT_THAT(Cli({"suspend", "train"}).text, HasSubstr("is suspended already"));
  EXPECT_EQ(Cli({"restart", "train"}).code, cli::kExitInvalid);

  said = Cli({"resume", "train", "--wait", "--timeout", "30s"});
  EXPECT_EQ(said.code, cli::kExitOk) << said.text;
  WaitForRunningAttempt(2, 2);

  said = Cli({"restart", "train", "--wait", "--timeout", "30s"});
  EXPECT_EQ(said.code, cli::kExitOk) << said.text;
  WaitForRunningAttempt(3, 2);
  said = Cli({"restart", "train", "--wait", "--timeout", "30s"});  // most likely in the same second
  EXPECT_EQ(said.code, cli::kExitOk) << said.text;
  WaitForRunningAttempt(4, 2);
  EXPECT_EQ(json::GetInt(Read(kJobs, "train"), {"status", "restarts", "total"}), 0);
  ExpectNoPodMadeTwice();
}

TEST_F(CliTest, LogsAreThoseOfTheRanksThatAreWanted) {
  const LogServer kubelet(*this, [](const std::string& path) {
    return "this is " + path.substr(path.find("train")) + "\nand more\n";
  });
  Create(Job(3));
  WaitForRunningAttempt(1, 3);
  Said said = Cli({"logs", "train"});
  EXPECT_EQ(said.code, cli::kExitOk);
  EXPECT_EQ(said.text, "this is train-1-0/worker\nand more\n");
  said = Cli({"logs", "train", "--rank", "0,2"});
  EXPECT_EQ(said.text,
            "[0] this is train-1-0/worker\n[0] and more\n"
            "[2] this is train-1-2/worker\n[2] and more\n");
  said = Cli({"logs", "train", "--rank", "all", "--attempt", "7"});
  EXPECT_EQ(said.code, cli::kExitNoInput);
  EXPECT_THAT(said.text, HasSubstr("no pod of attempt 7 is left"));
}

// The kubelet has one more line each time it is asked; the pod runs on, so the log goes on.
TEST_F(CliTest, AFollowedLogSurvivesARestartOfTheApiServer) {
  std::atomic<int> asked{0};
  const LogServer kubelet(*this, [&asked](const std::string& /*path*/) {
    const int now = ++asked;
    return fmt::format("2026-01-01T00:{:02}:{:02}.000000000Z line {}\n", now / 60, now % 60, now);
  });
  Create(Job(1));
  WaitForRunningAttempt(1, 1);
  const std::string log = cluster_.FileName("followed");
  Process follower(Command({"logs", "train", "-f"}), log);
  const auto has_line = [&log](int number) {
    return ReadFile(log).find(fmt::format("line {}\n", number)) != std::string::npos;
  };
  ASSERT_TRUE(Eventually(kLongest, [&] { return has_line(2); })) << ReadFile(log);
  cluster_.RestartApiServer();
  const int before = asked;
  EXPECT_TRUE(Eventually(kLongest, [&] { return has_line(before + 2); })) << ReadFile(log);
  EndAll(1, 1, 0);
  EXPECT_EQ(follower.Wait(kLongest), cli::kExitOk) << ReadFile(log);
  EXPECT_FALSE(has_line(asked + 1));
}

TEST_F(CliTest, KubectlFindsThePluginAndItsCompletions) {
  Create(Job(1));
  const std::string bin =
      std::string(DDP_KUBECTL_DDP).substr(0, std::string(DDP_KUBECTL_DDP).rfind('/'));
  const auto kubectl = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"/usr/bin/env", "PATH=" + bin + ":/usr/bin:/bin",
                  "KUBECONFIG=" + cluster_.AdminKubeconfig(), cluster_.KubectlPath()});
    return RunProgram(words);
  };
  EXPECT_THAT(kubectl({"ddp", "version"}).text, HasSubstr("kubectl-ddp "));
  EXPECT_THAT(kubectl({"ddp", "status", "train", "-n", namespace_}).text, HasSubstr("/train: "));
  EXPECT_EQ(kubectl({"ddp", "status", "nobody", "-n", namespace_}).code, cli::kExitNoInput);
  EXPECT_THAT(kubectl({"__complete", "ddp", "stat"}).text, HasSubstr("status\n:4"));
  EXPECT_THAT(kubectl({"__complete", "ddp", "logs", "-n", namespace_, ""}).text,
              HasSubstr("train\n:4"));
}

}  // namespace
}  // namespace ddp::integration
