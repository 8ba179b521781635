// Handing text and lists of tensors from one rank to all. Collective calls on the default group;
// internal to this folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/ddp/named_tensor.h"

namespace ddp {

// Rank `root`'s text, on all ranks.
std::string ShareText(const std::string& mine, int root);

// Rank `root`'s tensors, on all ranks, in the memory of the host. The root gets its own ones back.
std::vector<rt::NamedTensor> ShareTensors(const std::vector<rt::NamedTensor>& mine, int root);

// Runs it on rank 0; its result there, or its Error everywhere.
std::string RunOnRankZero(const std::function<std::string()>& body);

}  // namespace ddp
