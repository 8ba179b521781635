#include "runtime/train/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/comm/cuda.h"
#include "runtime/ddp/torch_cuda.h"

namespace ddp::rt::train {
namespace {

// Why this rank can't have a GPU; "" if it can.
std::string WhyNone(int local_rank) {
  const comm::CudaStatus status = comm::ProbeCuda();
  if (status.devices == 0) {
    return status.why_none;
  }
  if (local_rank >= status.devices) {
    return fmt::format("LOCAL_RANK is {}, but this host has {} GPU(s): start one rank a GPU",
                       local_rank, status.devices);
  }
  if (std::string why = LoadTorchCuda(); !why.empty()) {
    return why;
  }
  return at::hasCUDA() ? "" : "libtorch's CUDA part finds no GPU";
}

}  // namespace

at::Device ChooseDevice(const std::string& wanted, int local_rank) {
  if (wanted == "cpu") {
    return at::kCPU;
  }
  const std::string why = WhyNone(local_rank);
  if (why.empty()) {
    const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(local_rank));
    c10::impl::getDeviceGuardImpl(at::kCUDA)->setDevice(device);
    return device;
  }
  if (wanted == "cuda") {
    throw Error(ExitCode::kConfig, fmt::format("train.device is cuda, but {}", why));
  }
  Log(Level::kInfo, "computing on the CPU: {}", why);
  return at::kCPU;
}

}  // namespace ddp::rt::train
