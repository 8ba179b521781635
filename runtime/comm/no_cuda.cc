// The build without CUDA.
#include "runtime/base/error.h"
#include "runtime/comm/cuda.h"
#include "runtime/comm/nccl_transport.h"

namespace ddp::rt::comm {

CudaStatus ProbeCuda() {
  return {0, "this program was built without CUDA (CMake preset cuda builds it with)"};
}

std::unique_ptr<Transport> MakeNcclTransport(const NcclOptions& /*options*/,
                                             store::Store& /*store*/, std::vector<Fd> /*sockets*/,
                                             Control& /*control*/) {
  throw Error(ExitCode::kConfig, ProbeCuda().why_none);
}

}  // namespace ddp::rt::comm
