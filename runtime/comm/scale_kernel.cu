#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "runtime/comm/scale_kernel.h"

namespace ddp::rt::comm {
namespace {

template <typename T>
struct Arithmetic {
  static __device__ T Divide(T x, int divisor) { return x / static_cast<T>(divisor); }
};
template <>
struct Arithmetic<float> {
  static __device__ float Divide(float x, int divisor) {
    return x * (1.0F / static_cast<float>(divisor));
  }
};
template <>
struct Arithmetic<double> {
  static __device__ double Divide(double x, int divisor) {
    return x * (1.0 / static_cast<double>(divisor));
  }
};
template <>
struct Arithmetic<__half> {
  static __device__ __half Divide(__half x, int divisor) {
    return __float2half_rn(Arithmetic<float>::Divide(__half2float(x), divisor));
  }
};
template <>
struct Arithmetic<__nv_bfloat16> {
  static __device__ __nv_bfloat16 Divide(__nv_bfloat16 x, int divisor) {
    return __float2bfloat16_rn(Arithmetic<float>::Divide(__bfloat162float(x), divisor));
  }
};

template <typename T>
__global__ void DivideKernel(T* data, std::size_t count, int divisor) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    data[i] = Arithmetic<T>::Divide(data[i], divisor);
  }
}

template <typename T>
cudaError_t Launch(void* data, std::size_t count, int divisor, cudaStream_t stream) {
  constexpr unsigned kThreads = 256;
  // Enough blocks to fill a GPU; the loop in the kernel does the rest.
  constexpr std::size_t kMostBlocks = 1024;
  const std::size_t wanted = (count + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  DivideKernel<T><<<blocks, kThreads, 0, stream>>>(static_cast<T*>(data), count, divisor);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchDivide(void* data, std::size_t count, DataType type, int divisor,
                         cudaStream_t stream) {
  if (count == 0) {
    return cudaSuccess;
  }
  switch (type) {
    case DataType::kF32:
      return Launch<float>(data, count, divisor, stream);
    case DataType::kF64:
      return Launch<double>(data, count, divisor, stream);
    case DataType::kBF16:
      return Launch<__nv_bfloat16>(data, count, divisor, stream);
    case DataType::kF16:
      return Launch<__half>(data, count, divisor, stream);
    case DataType::kI32:
      return Launch<std::int32_t>(data, count, divisor, stream);
    case DataType::kI64:
      return Launch<std::int64_t>(data, count, divisor, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace ddp::rt::comm
