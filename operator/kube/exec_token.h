// A token from a credential plugin, a program that a kubeconfig names: `aws eks get-token`,
// gke-gcloud-auth-plugin, kubelogin. It is run when a token is asked for, not before, and again
// when that token runs out or is refused (the protocol: kubernetes.io, "client-go credential
// plugins"). A plugin that answers with a certificate is not supported. Thread-safe.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "operator/json/json.h"
#include "operator/kube/token.h"

namespace ddp::kube {

class ExecToken : public TokenSource {
 public:
  struct Options {
    std::string api_version;           // of client.authentication.k8s.io
    std::vector<std::string> command;  // the program, found in $PATH, and its arguments
    std::vector<std::pair<std::string, std::string>> environment;  // besides our own
    bool interactive = false;  // it may ask the one at the terminal
    json::Json cluster;        // what it is told of the cluster; null: nothing
    std::string install_hint;  // for people, when the program is not there
    std::chrono::milliseconds deadline{60'000};
  };
  // Before its end, so that no request is under way with a token that has run out.
  static constexpr std::chrono::seconds kRenewBefore{10};

  explicit ExecToken(Options options, const base::Clock& clock = base::SystemClock())
      : options_(std::move(options)), clock_(clock) {}
  // A plugin that fails is told of in the log; the token is empty then, and the server refuses it.
  std::string Token() override;
  bool Refused(const std::string& token) override;

 private:
  struct Credential {
    std::string token;
    std::optional<base::TimePoint> expires;  // nothing: with this program
  };
  base::Result<Credential> Ask() const;
  base::Result<std::string> Run() const;
  base::Result<Credential> Read(const std::string& answer) const;

  const Options options_;
  const base::Clock& clock_;
  std::mutex mutex_;
  std::optional<Credential> credential_;
};

}  // namespace ddp::kube
