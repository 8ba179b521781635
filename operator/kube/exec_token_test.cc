#include "operator/kube/exec_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "operator/kube/config.h"

namespace ddp::kube {
namespace {

constexpr const char* kV1 = "client.authentication.k8s.io/v1";

// A plugin that is a shell script; each run adds a line to `runs`.
class ExecTokenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/ddp-exec-XXXXXX";
    root_ = mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  ExecToken::Options Script(const std::string& script) const {
    ExecToken::Options options;
    options.api_version = kV1;
    options.command = {"sh", "-c", "echo >>" + root_ + "/runs; " + script, "plugin", "argument"};
    return options;
  }
  static std::string Answer(const std::string& status) {
    return R"(echo '{"kind":"ExecCredential","apiVersion":")" + std::string(kV1) +
           R"(","status":)" + status + "}'";
  }
  int Runs() const {
    std::ifstream file(root_ + "/runs");
    return static_cast<int>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  }

  std::string root_;
  base::FakeClock clock_{base::TimePoint(std::chrono::seconds(1'700'000'000))};
};

TEST_F(ExecTokenTest, AsksOnceAndAgainWhenRefused) {
  ExecToken token(Script(Answer(R"({"token":"t1"})")), clock_);
  EXPECT_EQ(Runs(), 0) << "not before a token is wanted";
  EXPECT_EQ(token.Token(), "t1");
  EXPECT_EQ(token.Token(), "t1");
  EXPECT_EQ(Runs(), 1);
  EXPECT_TRUE(token.Refused("an older one"));
  token.Token();
  EXPECT_EQ(Runs(), 1);
  EXPECT_TRUE(token.Refused("t1"));
  token.Token();
  EXPECT_EQ(Runs(), 2);
}

TEST_F(ExecTokenTest, AsksAgainShortlyBeforeTheTokensEnd) {
  ExecToken token(Script(Answer(R"({"token":"t","expirationTimestamp":"2023-11-14T22:14:20Z"})")),
                  clock_);
  EXPECT_EQ(token.Token(), "t");  // which ends 60 s from now
  clock_.Advance(std::chrono::seconds(49));
  token.Token();
  EXPECT_EQ(Runs(), 1);
  clock_.Advance(std::chrono::seconds(2));
  token.Token();
  EXPECT_EQ(Runs(), 2);
}

TEST_F(ExecTokenTest, TellsThePluginWhatItMayKnow) {
  ExecToken::Options options = Script(R"(told=$(echo "$KUBERNETES_EXEC_INFO" | tr -d '"'); )" +
                                      Answer(R"({"token":"'"$1 $EXTRA $told"'"})"));
  options.environment = {{"EXTRA", "more"}};
  options.cluster = {{"server", "https://h"}};
  ExecToken token(options, clock_);
  EXPECT_EQ(token.Token(),
            "argument more {apiVersion:client.authentication.k8s.io/v1,kind:ExecCredential,"
            "spec:{cluster:{server:https://h},interactive:false}}");
}

TEST_F(ExecTokenTest, APluginThatFailsGivesNoToken) {
  ExecToken::Options absent = Script("");
  absent.command = {"/nowhere/plugin"};
  ExecToken::Options slow = Script("exec sleep 60");
  slow.deadline = std::chrono::milliseconds(50);
  for (const ExecToken::Options& options :
       {absent, slow, Script("exit 3"), Script("kill -9 $$"), Script("echo no"), Script("echo {}"),
        Script(Answer(R"({"clientCertificateData":"c"})")),
        Script(Answer(R"({"token":"t","expirationTimestamp":"soon"})")),
        Script(R"(echo '{"kind":"ExecCredential","apiVersion":"v0"}')")}) {
    ExecToken token(options, clock_);
    EXPECT_EQ(token.Token(), "");
    EXPECT_FALSE(token.Refused("")) << "asking again at once would not help";
  }
}

TEST_F(ExecTokenTest, IsMadeFromAKubeconfigThatNamesThePlugin) {
  std::ofstream(root_ + "/plugin") << "#!/bin/sh\n" << Answer(R"({"token":"from-plugin"})") << "\n";
  std::filesystem::permissions(root_ + "/plugin", std::filesystem::perms::owner_all);
  const auto config = ParseKubeconfig(
      "current-context: a\ncontexts:\n- {name: a, context: {cluster: k, user: u}}\n"
      "clusters:\n- {name: k, cluster: {server: 'http://h'}}\n"
      "users:\n- name: u\n  user: {exec: {apiVersion: client.authentication.k8s.io/v1, "
      "command: ./plugin, args: [get], interactiveMode: Never}}\n",
      root_ + "/config");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->token->Token(), "from-plugin");
}

}  // namespace
}  // namespace ddp::kube
