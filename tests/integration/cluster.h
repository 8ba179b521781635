// A real control plane (tests/testbed) with the CRD and the operator's manifests applied; one for
// the whole test program. The operators under test run as the manifests' service account.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "operator/kube/client.h"
#include "tests/integration/process.h"

namespace ddp::integration {

class Cluster {
 public:
  static Cluster& Get();  // started by the first call; ends with the program

  kube::Client& admin() { return *admin_; }
  std::string Kubectl(const std::vector<std::string>& arguments) const;
  void RestartApiServer();

  // A kubeconfig with a token of the operator's service account. `server` instead of the cluster's
  // own, to go through a proxy.
  std::string OperatorKubeconfig(const std::string& server = "") const;
  std::string AdminKubeconfig() const { return state_ + "/admin.kubeconfig"; }
  std::string KubectlPath() const { return state_ + "/bin/kubectl"; }
  const std::string& server() const { return server_; }
  int port() const;
  // A fresh file in the state folder.
  std::string FileName(const std::string& stem) const;

  struct Audit {
    std::string user;
    std::string verb;
    std::string resource;  // "pods", "ddpjobs/status"
    std::string name_space;
    std::string name;
    int code = 0;
    std::string time;  // RFC 3339 with microseconds: compares as text
  };
  // The operators' requests so far, in order.
  std::vector<Audit> OperatorRequests() const;
  // An API server that is not ready yet refuses what its roles will allow.
  bool WasRestarting(const Audit& request) const;
  // Ends it; the state folder stays when a test failed.
  void TearDown(bool keep_state);

 private:
  Cluster();
  std::string state_;
  std::string server_;
  std::string ca_base64_;
  std::string token_;
  std::vector<std::pair<std::string, std::string>> restarts_;  // from, to
  std::shared_ptr<kube::HttpTransport> transport_;
  std::unique_ptr<kube::Client> admin_;
};

// ddp-operator, as a process.
class OperatorProcess {
 public:
  // Options beside --kubeconfig and --health-port.
  // `before`: a command that runs it, such as env.
  explicit OperatorProcess(const std::string& kubeconfig,
                           const std::vector<std::string>& options = {},
                           const std::vector<std::string>& before = {});
  Process& process() { return process_; }
  std::string Log() const { return ReadFile(log_); }

 private:
  std::string log_;
  Process process_;
};

}  // namespace ddp::integration
