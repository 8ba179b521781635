// Makes what a job may need beside its service and pods: its claim, its NetworkPolicy, its
// PodGroup. And the rule for every child: a name that is taken counts as made when it is ours.
// Thread-safe.
#pragma once

#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/ddpjob/observed.h"
#include "operator/kube/client.h"

namespace ddp::job {

// What a creation came to: kAlreadyExists only when the name belongs to somebody else. What is
// there already may be our own doing, by a request whose answer was lost or that was sent twice;
// then it counts as created. `is_ours` tells.
kube::ApiResult<json::Json> OursIfTaken(kube::Client& client, const kube::Resource& resource,
                                        const std::string& name_space, const std::string& name,
                                        kube::ApiResult<json::Json> created,
                                        const std::function<bool(const json::Json&)>& is_ours,
                                        const std::stop_token& stop);
kube::ApiResult<json::Json> CreateOrGetOurs(kube::Client& client, const kube::Resource& resource,
                                            const std::string& name_space, const json::Json& object,
                                            const std::function<bool(const json::Json&)>& is_ours,
                                            const std::stop_token& stop);

class KubeExtras {
 public:
  // `namespaces`: from which a job's NetworkPolicy lets the progress ports be reached.
  KubeExtras(kube::Client client, std::vector<std::string> namespaces)
      : client_(std::move(client)), namespaces_(std::move(namespaces)) {}

  kube::ApiResult<ExtraView> Create(const api::DDPJob& job, Extra extra, int attempt,
                                    const std::stop_token& stop);

 private:
  kube::ApiResult<ExtraView> CreatePodGroup(const api::DDPJob& job, int attempt,
                                            const std::stop_token& stop);
  kube::ApiResult<ExtraView> Take(const api::DDPJob& job, const kube::Resource& resource,
                                  const json::Json& object, int attempt,
                                  const std::stop_token& stop);
  // The newest version in which the server has PodGroups; "" for none. Asked until there is one.
  kube::ApiResult<std::string> PodGroupVersion(const std::stop_token& stop);

  kube::Client client_;
  const std::vector<std::string> namespaces_;
  std::mutex mutex_;
  std::string pod_group_version_;
};

}  // namespace ddp::job
