#include "runtime/ddp/torch_cuda.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

namespace ddp::rt {
namespace {

std::string Load() {
  if (c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) {
    return "";
  }
  // Its kernels register themselves. For all: it has names that its other libraries look for.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) {
    return "";
  }
  const char* why = dlerror();
  return fmt::format("libtorch's CUDA part can't be loaded: {}",
                     why != nullptr ? why : "no reason");
}

}  // namespace

std::string LoadTorchCuda() {
  static const std::string kWhyNot = Load();
  return kWhyNot;
}

}  // namespace ddp::rt
