#include "operator/kube/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace ddp::kube {
namespace {

using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  Files() {
    char pattern[] = "/tmp/ddp-config-XXXXXX";
    root_ = mkdtemp(pattern);
  }
  ~Files() override { std::filesystem::remove_all(root_); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ + "/" + name) << text;
    return root_ + "/" + name;
  }
  std::string Kubeconfig(const std::string& cluster, const std::string& user) const {
    return Write("config",
                 "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n"
                 "  context: {cluster: k, user: u, namespace: team}\nclusters:\n- name: k\n"
                 "  cluster: " +
                     cluster + "\nusers:\n- name: u\n  user: " + user + "\n");
  }
  std::string root_;
};

Getenv Env(std::map<std::string, std::string> values) {
  auto shared = std::make_shared<std::map<std::string, std::string>>(std::move(values));
  return [shared](const char* name) -> const char* {
    const auto it = shared->find(name);
    return it == shared->end() ? nullptr : it->second.c_str();
  };
}

TEST_F(Files, ReadsEmbeddedAndFileCredentials) {
  Write("ca.pem", "-----BEGIN CERTIFICATE-----");
  const auto config = LoadKubeconfig(
      Kubeconfig("{server: 'https://h:6443/k8s', certificate-authority: ca.pem}",
                 "{client-certificate-data: LS0tLS1CRUdJTiBY, client-key-data: LS0tLS1CRUdJTiBL}"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://h:6443/k8s");
  EXPECT_EQ(config->ca.file, root_ + "/ca.pem");
  EXPECT_EQ(config->client_certificate.text, "-----BEGIN X");
  EXPECT_EQ(config->client_key.text, "-----BEGIN K");
  EXPECT_EQ(config->default_namespace, "team");
  EXPECT_EQ(config->token, nullptr);
}

TEST_F(Files, TakesTheContextThatIsNamed) {
  const std::string text =
      "current-context: a\ncontexts:\n- {name: a, context: {cluster: k, namespace: first}}\n"
      "- {name: b, context: {cluster: k, namespace: second}}\n"
      "clusters:\n- {name: k, cluster: {server: 'http://h'}}\n";
  EXPECT_EQ(ParseKubeconfig(text, "f")->default_namespace, "first");
  EXPECT_EQ(ParseKubeconfig(text, "f", "b")->default_namespace, "second");
  const auto missing = ParseKubeconfig(text, "f", "c");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("no entry named 'c'"));
  // In a pod, a context that is named is looked for in a file.
  const auto env = Env({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"HOME", root_}});
  EXPECT_EQ(LoadConfig("", env, "b").error().code, base::ErrorCode::kNotFound);
}

TEST_F(Files, ReadsTokens) {
  auto config = LoadKubeconfig(Kubeconfig("{server: 'http://h'}", "{token: abc}"));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->token->Token(), "abc");
  Write("t", "from-file\n");
  config = LoadKubeconfig(Kubeconfig("{server: 'http://h'}", "{tokenFile: t, token: ignored}"));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->token->Token(), "from-file");
}

TEST_F(Files, RefusesWithFileAndKey) {
  struct Row {
    const char* cluster;
    const char* user;
    const char* key;
  };
  const Row rows[] = {
      {"{server: 'http://h'}", "{exec: {command: aws}}", "exec.apiVersion"},
      {"{server: 'http://h'}", "{exec: {apiVersion: client.authentication.k8s.io/v1}}",
       "exec.command"},
      {"{server: 'http://h'}",
       "{exec: {apiVersion: client.authentication.k8s.io/v1, command: c, args: [1]}}", "exec.args"},
      {"{server: 'http://h'}", "{auth-provider: {name: gcp}}", "auth-provider"},
      {"{server: 'http://h'}", "{username: u, password: p}", "username"},
      {"{server: 'http://h'}", "{client-key-data: LS0tLS1CRUdJTiBL}", "client-certificate"},
      {"{server: 'http://h'}", "{client-key: nowhere}", "client-key"},
      {"{server: 'http://h'}", "{client-key-data: '***'}", "client-key-data"},
      {"{server: 'http://h'}", "{tokenFile: nowhere}", "tokenFile"},
      {"{server: 'http://h', insecure-skip-tls-verify: true}", "{}", "insecure-skip-tls-verify"},
      {"{server: 'http://h', proxy-url: 'http://p'}", "{}", "proxy-url"},
      {"{certificate-authority-data: AAAA}", "{}", "server"},
  };
  for (const Row& row : rows) {
    const std::string path = Kubeconfig(row.cluster, row.user);
    const auto config = LoadKubeconfig(path);
    ASSERT_FALSE(config) << row.user;
    EXPECT_THAT(config.error().message, HasSubstr(path));
    EXPECT_THAT(config.error().message, HasSubstr(row.key));
  }
}

TEST_F(Files, RefusesWhatIsNoKubeconfig) {
  EXPECT_EQ(LoadKubeconfig(root_ + "/nowhere").error().code, base::ErrorCode::kNotFound);
  for (const char* text : {"", "[1]", "a: [", "current-context: x\n", "current-context: ''\n"}) {
    const auto config = LoadKubeconfig(Write("bad", text));
    ASSERT_FALSE(config) << text;
    EXPECT_THAT(config.error().message, HasSubstr(root_ + "/bad"));
  }
}

TEST_F(Files, ReadsAPodsServiceAccount) {
  Write("ca.crt", "x");
  Write("token", "t1");
  Write("namespace", "ddp-system");
  const auto env =
      Env({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}});
  auto config = LoadInCluster(env, root_);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://10.0.0.1:443");
  EXPECT_EQ(config->default_namespace, "ddp-system");
  EXPECT_EQ(config->token->Token(), "t1");

  config = LoadInCluster(
      Env({{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}}), root_);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server, "https://kubernetes.default.svc:443");

  std::filesystem::remove(root_ + "/token");
  EXPECT_THAT(LoadInCluster(env, root_).error().message, HasSubstr(root_ + "/token"));
}

TEST_F(Files, ChoosesWhereToLook) {
  const std::string path = Kubeconfig("{server: 'http://h'}", "{}");
  EXPECT_TRUE(LoadConfig(path, Env({})));
  EXPECT_TRUE(LoadConfig("", Env({{"KUBECONFIG", path}})));
  EXPECT_THAT(LoadConfig("", Env({{"KUBECONFIG", path + ":" + path}})).error().message,
              HasSubstr("several files"));
  EXPECT_THAT(LoadConfig("", Env({{"HOME", root_}})).error().message, HasSubstr("--kubeconfig"));
  std::filesystem::create_directory(root_ + "/.kube");
  std::filesystem::copy(path, root_ + "/.kube/config");
  EXPECT_TRUE(LoadConfig("", Env({{"HOME", root_}})));
}

TEST_F(Files, ATokenFileIsReadAgainEveryMinuteAndWhenRefused) {
  base::FakeClock clock;
  const std::string path = Write("token", "one\n");
  TokenFile token(path, clock);
  EXPECT_EQ(token.Token(), "one");
  Write("token", "two");
  EXPECT_EQ(token.Token(), "one");
  clock.Advance(std::chrono::seconds(60));
  EXPECT_EQ(token.Token(), "two");
  Write("token", "three");
  EXPECT_TRUE(token.Refused("two"));
  EXPECT_EQ(token.Token(), "three");
  std::filesystem::remove(path);
  clock.Advance(std::chrono::seconds(60));
  EXPECT_EQ(token.Token(), "three");
}

}  // namespace
}  // namespace ddp::kube
