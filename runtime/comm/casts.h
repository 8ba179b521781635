// Element-wise arithmetic beside the reductions: 16-bit floats to float and back, and the scaling
// of a mean. Compiled for several instruction sets, all with the same bits (of a NaN, that it is
// one); the best one that the CPU has is chosen at run time. Stateless, thread-safe.
#pragma once

#include <cstddef>

#include "runtime/comm/cpu.h"
#include "runtime/comm/types.h"

namespace ddp::rt::comm {

// `type` is kBF16 or kF16. No overlap.
void Widen(DataType type, const void* in, float* out, std::size_t count);
// Rounds to nearest, ties to even; a NaN stays one, and what is too large becomes infinite.
void Narrow(DataType type, const float* in, void* out, std::size_t count);
// What ReduceOp::kMean does to a sum, in place. Not for 16-bit floats, whose sums are floats.
void DivideSum(DataType type, void* sums, int world_size, std::size_t count);

// One instruction set's, for tests to compare.
struct CastKernels {
  void (*widen)(DataType type, const void* in, float* out, std::size_t count);
  void (*narrow)(DataType type, const float* in, void* out, std::size_t count);
  void (*divide)(DataType type, void* sums, int world_size, std::size_t count);
};
// By InstructionSet, as far as BestInstructionSet goes.
const CastKernels& CastsForTest(InstructionSet set);

}  // namespace ddp::rt::comm
