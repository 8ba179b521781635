// The one kernel of our own: multiplies device memory by 1 / divisor, in place, on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "runtime/comm/types.h"

namespace ddp::rt::comm {

// 16-bit floats are scaled in float and rounded once; integers are divided, towards zero.
cudaError_t LaunchDivide(void* data, std::size_t count, DataType type, int divisor,
                         cudaStream_t stream);

}  // namespace ddp::rt::comm
