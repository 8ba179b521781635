#include "operator/ddpjob/transport_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ddp::job {

std::optional<TransportTrouble> FindTransportTrouble(
    const api::Spec& spec, const std::vector<const PodRecord*>& by_replica) {
  const int64_t gpus = spec.pod_template.gpu_limit();
  const int processes = spec.processes_per_replica;
  if (gpus == 0) {
    return std::nullopt;
  }
  if (gpus != processes) {
    return TransportTrouble{
        api::kReasonGpuLimit,
        fmt::format("the worker's GPU limit is {} and spec.processesPerReplica is {}: one process "
                    "drives one GPU, so give both the same number",
                    gpus, processes)};
  }
  if (gpus != 1) {
    return std::nullopt;
  }
  std::map<std::string_view, int> pods_of_node;
  for (const PodRecord* pod : by_replica) {
    if (pod == nullptr || pod->node.empty()) {
      return std::nullopt;
    }
    ++pods_of_node[pod->node];
  }
  const auto fullest =
      std::max_element(pods_of_node.begin(), pods_of_node.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (fullest == pods_of_node.end() || fullest->second < 2) {
    return std::nullopt;
  }
  return TransportTrouble{
      api::kReasonSharedNode,
      fmt::format("{} one-GPU pods are on node {}: each sees its own GPU only, so NCCL uses the "
                  "network between them instead of NVLink; set spec.processesPerReplica and the "
                  "worker's GPU limit to the GPUs of a node, and spec.replicas to the nodes",
                  fullest->second, fullest->first)};
}

}  // namespace ddp::job
