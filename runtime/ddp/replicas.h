// What keeps replicas of tensors equal: sending rank 0's values to all, and comparing them by hash.
// Plain functions; those with a group are collective calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/process_group.h"
#include "runtime/ddp/named_tensor.h"

namespace ddp::rt {

// Gives all ranks rank 0's values. Small tensors go together, in few messages. `what` is what
// errors call them: "buffer".
void BroadcastFromZero(comm::ProcessGroup& group, const std::vector<NamedTensor>& tensors,
                       const std::string& what);

// Of all elements, in order. GPU tensors are copied to the host for it.
std::uint64_t HashOf(const std::vector<NamedTensor>& tensors);

// Error(kSoftware) names the ranks whose hash differs from rank 0's.
void VerifyEqualOnAllRanks(comm::ProcessGroup& group, std::uint64_t hash, std::int64_t step);

}  // namespace ddp::rt
