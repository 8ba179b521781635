// The arithmetic of reductions on the CPU. Compiled for several instruction sets; the best one that
// the CPU has is chosen once, at run time. All give the same bits: see ReduceOp for the order and
// rounding. Stateless, thread-safe.
#pragma once

#include <cstddef>

#include "runtime/comm/types.h"

namespace ddp::rt::comm {

// Reduces `world_size` arrays of `count` elements, given in the order of ranks, into each of `outs`
// (at least one). Every output is one of the inputs or overlaps with none.
using ReduceFunction = void (*)(DataType type, ReduceOp op, const void* const* inputs,
                                int world_size, void* const* outs, int out_count,
                                std::size_t count);

// The one for this CPU.
void ReduceToAll(DataType type, ReduceOp op, const void* const* inputs, int world_size,
                 void* const* outs, int out_count, std::size_t count);
// The same into one.
void Reduce(DataType type, ReduceOp op, const void* const* inputs, int world_size, void* out,
            std::size_t count);

// All that this CPU can run: their results are compared.
struct NamedReduce {
  const char* instruction_set;
  ReduceFunction function;
};
const NamedReduce* ReduceVariantsForTest(std::size_t& count);

}  // namespace ddp::rt::comm
