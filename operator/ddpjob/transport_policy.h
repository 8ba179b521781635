// Where the ranks' GPUs and nodes make NCCL slower than it could be. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

struct TransportTrouble {
  std::string reason;
  std::string message;  // says what to set instead
  bool operator==(const TransportTrouble&) const = default;
};

// A GPU limit that differs from spec.processesPerReplica; or one-GPU pods of the job that share a
// node: each sees its own GPU only, so NCCL takes the network between them. `by_replica` as in
// Group. The second is told once every pod has a node.
std::optional<TransportTrouble> FindTransportTrouble(
    const api::Spec& spec, const std::vector<const PodRecord*>& by_replica);

}  // namespace ddp::job
