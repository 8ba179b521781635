// Agreement on what is being trained: names, shapes, strides and dtypes of all tensors, in order.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/ddp/named_tensor.h"
#include "runtime/store/store.h"

namespace ddp::rt {

// One line a tensor: "fc.weight Float [10, 20] strides [20, 1]".
std::vector<std::string> DescribeTensors(const std::vector<NamedTensor>& tensors);

// Throws Error(kConfig), the same on all ranks, that names the first rank that differs from rank 0,
// and its first difference. `key` is used once.
void VerifySameLayout(const std::vector<std::string>& lines, int rank, int world_size,
                      store::Store& store, const std::string& key, const Deadline& deadline);

}  // namespace ddp::rt
