// Element types and reductions that collectives know. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp::rt::comm {

enum class DataType : std::uint8_t { kF32, kF64, kBF16, kF16, kI32, kI64 };

// Sums are taken in the order of ranks: ((r0 + r1) + r2) + …, 16-bit floats in float, rounded once.
// The mean multiplies that sum by 1/world (integers: divides, rounding towards zero). The maximum
// is NaN where any rank has a NaN. So results are bit-equal on all ranks, in all runs, and the same
// for shm, tcp and both together.
enum class ReduceOp : std::uint8_t { kSum, kMean, kMax };

constexpr std::size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kF32:
    case DataType::kI32:
      return 4;
    case DataType::kF64:
    case DataType::kI64:
      return 8;
    case DataType::kBF16:
    case DataType::kF16:
      return 2;
  }
  return 0;
}

const char* Name(DataType type);
const char* Name(ReduceOp op);

}  // namespace ddp::rt::comm
