// The cluster that a command talks to, as kubectl would find it, and the jobs in it. Errors come as
// sentences that say what to do. One thread, but for client().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/parse.h"
#include "operator/cli/report.h"
#include "operator/kube/client.h"

namespace ddp::cli {

struct ClusterOptions {
  std::string name_space;  // "": the context's
  std::string context;     // "": the current one
  std::string kubeconfig;  // "": $KUBECONFIG, the pod's account, ~/.kube/config
};

// A job as the server stores it, and as values.
struct JobObject {
  json::Json object;
  api::DDPJob job;
};

class Cluster {
 public:
  template <typename T>
  using Result = base::Result<T, CliError>;

  static Result<Cluster> Connect(const ClusterOptions& options);

  kube::Client& client() { return client_; }
  const std::string& name_space() const { return namespace_; }

  // kExitNoInput names the nearest job; a cluster without the resource says how to install it.
  Result<JobObject> Get(const std::string& name);
  // Merges a patch into the job; `what` says for errors what that is for ("suspend it").
  Result<JobObject> Patch(const std::string& name, const json::Json& patch);
  Result<std::vector<std::string>> Names();  // of all jobs, sorted
  // The job's pods, newest attempt last.
  Result<std::vector<json::Json>> Pods(const api::DDPJob& job);
  // What was said of the job lately, eldest first.
  Result<std::vector<json::Json>> Events(const api::DDPJob& job);

  // Hands over the job whenever it changes, until `done` is true for it, the time is over
  // (kExitDeadline) or the job is gone (kExitNoInput).
  Result<JobObject> WaitFor(const std::string& name, std::chrono::seconds timeout,
                            const std::function<bool(const api::DDPJob&)>& done);

  CliError Explain(const kube::ApiError& error) const;

 private:
  Cluster(kube::Client client, std::string server, std::string name_space)
      : client_(std::move(client)), server_(std::move(server)), namespace_(std::move(name_space)) {}
  CliError NoSuchJob(const std::string& name);
  Result<std::vector<json::Json>> List(const kube::Resource& resource,
                                       const kube::Selection& selection);

  kube::Client client_;
  std::string server_;
  std::string namespace_;
};

// The name in `names` that was most likely meant; nothing when none is near. Pure.
std::optional<std::string> Nearest(const std::string& name, const std::vector<std::string>& names);

}  // namespace ddp::cli
