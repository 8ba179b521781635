#include "operator/ddpjob/transport_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "operator/api/validate.h"

namespace ddp::job {
namespace {

// A whole number, given as such or as text; a quantity with a suffix is no count of GPUs.
int64_t Count(const json::Json& value) {
  if (value.is_number_integer()) {
    return value.get<int64_t>();
  }
  int64_t count = 0;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), count);
  }
  return count;
}

}  // namespace

int64_t GpuLimit(const json::Json& pod_template) {
  const json::Json* worker = api::FindWorker(pod_template);
  const json::Json* limits =
      worker != nullptr ? json::Find(*worker, {"resources", "limits"}) : nullptr;
  if (limits == nullptr || !limits->is_object()) {
    return 0;
  }
  for (const auto& [name, value] : limits->items()) {
    if (name.ends_with("/gpu")) {
      return Count(value);
    }
  }
  return 0;
}

std::optional<TransportTrouble> FindTransportTrouble(
    const api::Spec& spec, const std::vector<const PodRecord*>& by_replica) {
  const int64_t gpus = GpuLimit(spec.pod_template);
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
