// Agreement on what is being trained: names, shapes, strides and dtypes of all tensors, in order.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/comm/process_group.h"
#include "runtime/ddp/named_tensor.h"
#include "runtime/store/store.h"

namespace ddp::rt {

// One line a tensor: "fc.weight Float [10, 20] strides [20, 1]".
std::vector<std::string> DescribeTensors(const std::vector<NamedTensor>& tensors);

// Throws Error(kConfig), the same on all ranks, that names the first rank that differs from rank 0,
// and its first difference. A collective call, so that a rank that is lost meanwhile is noticed;
// the store carries the lists, and only where they differ. `key` is used once.
void VerifySameLayout(const std::vector<std::string>& lines, comm::ProcessGroup& group,
                      store::Store& store, const std::string& key, const Deadline& deadline);

}  // namespace ddp::rt
