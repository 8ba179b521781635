// Whether GPUs can be used, without a CUDA header: also in builds without CUDA. Thread-safe.
#pragma once

#include <string>

namespace ddp::rt::comm {

struct CudaStatus {
  int devices = 0;
  std::string why_none;  // a sentence, if there are none
};

CudaStatus ProbeCuda();

}  // namespace ddp::rt::comm
