// Which API server to talk to, and as whom: from a kubeconfig file or from inside a pod.
// Plain data once loaded.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "operator/kube/token.h"
#include "operator/kube/transport.h"

namespace ddp::kube {

struct ClusterConfig {
  std::string server;
  Pem ca;
  Pem client_certificate;
  Pem client_key;
  std::shared_ptr<TokenSource> token;  // null: certificates authenticate, or nothing does
  std::string default_namespace = "default";

  TransportOptions ToTransportOptions(std::string user_agent) const;
};

// A context of a kubeconfig, "" for its current one. Errors name the file and the key. What is not
// supported is refused with a sentence, never ignored: auth-provider plugins, user/password,
// insecure-skip-tls-verify, proxy-url, tls-server-name, impersonation.
base::Result<ClusterConfig> LoadKubeconfig(const std::string& path,
                                           const std::string& context = "");
// The same from text; `path` is what errors name and relative file names start from.
base::Result<ClusterConfig> ParseKubeconfig(const std::string& text, const std::string& path,
                                            const std::string& context = "");

using Getenv = std::function<const char*(const char*)>;

// The service account of the pod that this program runs in. `root` is for tests.
base::Result<ClusterConfig> LoadInCluster(
    const Getenv& env, const std::string& root = "/var/run/secrets/kubernetes.io/serviceaccount");

// The file given, else $KUBECONFIG, else the pod's service account, else ~/.kube/config. A context
// named means a kubeconfig, never the pod's account.
base::Result<ClusterConfig> LoadConfig(const std::string& kubeconfig_flag, const Getenv& env,
                                       const std::string& context = "");

// The names of the contexts in the kubeconfig that LoadConfig would read; none when it can't be.
std::vector<std::string> ListContexts(const std::string& kubeconfig_flag, const Getenv& env);

}  // namespace ddp::kube
