#include "tests/integration/cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <sstream>

#include "operator/kube/config.h"

namespace ddp::integration {
namespace {

constexpr const char* kUser = "system:serviceaccount:ddp-system:ddp-operator";
constexpr std::chrono::seconds kStartTime{120};  // the programs are built already

// After the last test of the program.
class EndOfTests : public ::testing::Environment {
 public:
  void TearDown() override {
    Cluster::Get().TearDown(::testing::UnitTest::GetInstance()->Failed());
  }
};
[[maybe_unused]] const auto* const kEndOfTests =
    ::testing::AddGlobalTestEnvironment(new EndOfTests());  // gtest owns it

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string Testbed() { return std::string(DDP_SOURCE_DIR) + "/tests/testbed/cluster.sh"; }

}  // namespace

Cluster& Cluster::Get() {
  static Cluster cluster;
  return cluster;
}

Cluster::Cluster() {
  char pattern[] = "/tmp/ddp-integration-XXXXXX";
  state_ = mkdtemp(pattern);
  std::filesystem::remove(state_);
  RunOrDie({Testbed(), "control-plane", state_, "--follow", std::to_string(getpid())}, kStartTime);
  auto config = kube::LoadKubeconfig(state_ + "/admin.kubeconfig");
  DDP_CHECK(config.has_value(), "no kubeconfig");
  server_ = config->server;
  ca_base64_ = FirstLine(RunOrDie({"/usr/bin/base64", "-w0", state_ + "/pki/ca.crt"}));
  auto transport = kube::MakeHttpTransport(config->ToTransportOptions("integration-test"));
  DDP_CHECK(transport.has_value(), "no transport");
  transport_ = *std::move(transport);
  admin_ = std::make_unique<kube::Client>(transport_, nullptr);

  const std::string manifests = std::string(DDP_SOURCE_DIR) + "/manifests";
  Kubectl({"apply", "-f", manifests + "/crd/ddpjob.yaml"});
  Kubectl({"apply", "-k", manifests + "/operator"});
  Kubectl({"wait", "--for=condition=Established", "crd/ddpjobs.ddpjob.dev", "--timeout=30s"});
  token_ = FirstLine(Kubectl({"create", "token", "ddp-operator", "-n", "ddp-system"}));
}

std::string Cluster::Kubectl(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = {state_ + "/bin/kubectl",
                                      "--kubeconfig=" + state_ + "/admin.kubeconfig"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return RunOrDie(command);
}

void Cluster::RestartApiServer() {
  const auto now = [] { return base::FormatMicroTime(base::SystemClock().Now()); };
  std::string from = now();
  RunOrDie({Testbed(), "restart-apiserver", state_}, kStartTime);
  restarts_.emplace_back(std::move(from), now());
}

bool Cluster::WasRestarting(const Audit& request) const {
  return std::any_of(restarts_.begin(), restarts_.end(), [&](const auto& restart) {
    return restart.first <= request.time && request.time <= restart.second;
  });
}

void Cluster::TearDown(bool keep_state) {
  RunOrDie({Testbed(), "down", state_});
  if (!keep_state) {
    std::filesystem::remove_all(state_);
  }
}

int Cluster::port() const { return std::stoi(server_.substr(server_.rfind(':') + 1)); }

std::string Cluster::FileName(const std::string& stem) const {
  static std::atomic<int> count{0};
  return fmt::format("{}/{}-{}", state_, stem, ++count);
}

std::string Cluster::OperatorKubeconfig(const std::string& server) const {
  const json::Json config = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "test"},
      {"contexts",
       {{{"name", "test"},
         {"context", {{"cluster", "test"}, {"user", "operator"}, {"namespace", "ddp-system"}}}}}},
      {"clusters",
       {{{"name", "test"},
         {"cluster",
          {{"server", server.empty() ? server_ : server},
           {"certificate-authority-data", ca_base64_}}}}}},
      {"users", {{{"name", "operator"}, {"user", {{"token", token_}}}}}}};
  std::string path = FileName("operator.kubeconfig");
  WriteFile(path, json::Dump(config));
  return path;
}

std::vector<Cluster::Audit> Cluster::OperatorRequests() const {
  std::vector<Audit> requests;
  std::istringstream log(ReadFile(state_ + "/audit.log"));
  for (std::string line; std::getline(log, line);) {
    const auto entry = json::Parse(line);
    if (!entry || json::GetString(*entry, {"user", "username"}) != kUser ||
        json::GetString(*entry, {"stage"}) != "ResponseComplete") {
      continue;
    }
    const std::string subresource = json::GetString(*entry, {"objectRef", "subresource"});
    requests.push_back({kUser, json::GetString(*entry, {"verb"}),
                        json::GetString(*entry, {"objectRef", "resource"}) +
                            (subresource.empty() ? "" : "/" + subresource),
                        json::GetString(*entry, {"objectRef", "namespace"}),
                        json::GetString(*entry, {"objectRef", "name"}),
                        static_cast<int>(json::GetInt(*entry, {"responseStatus", "code"})),
                        json::GetString(*entry, {"requestReceivedTimestamp"})});
  }
  return requests;
}

namespace {

std::vector<std::string> OperatorCommand(const std::string& kubeconfig,
                                         const std::vector<std::string>& options,
                                         std::vector<std::string> command) {
  for (const std::string& part : {std::string(DDP_OPERATOR), std::string("--kubeconfig"),
                                  kubeconfig, std::string("--health-port"), std::string("0")}) {
    command.push_back(part);
  }
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

}  // namespace

OperatorProcess::OperatorProcess(const std::string& kubeconfig,
                                 const std::vector<std::string>& options,
                                 const std::vector<std::string>& before)
    : log_(Cluster::Get().FileName("operator.log")),
      process_(OperatorCommand(kubeconfig, options, before), log_) {}

}  // namespace ddp::integration
