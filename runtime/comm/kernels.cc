#include "runtime/comm/kernels.h"

#include <array>

#include "runtime/comm/cpu.h"

namespace ddp::rt::comm {

void ReduceBase(DataType type, ReduceOp op, const void* const* inputs, int world_size,
                void* const* outs, int out_count, std::size_t count);
#ifdef DDP_X86_KERNELS
void ReduceAvx2(DataType type, ReduceOp op, const void* const* inputs, int world_size,
                void* const* outs, int out_count, std::size_t count);
void ReduceAvx512(DataType type, ReduceOp op, const void* const* inputs, int world_size,
                  void* const* outs, int out_count, std::size_t count);
#endif

namespace {

struct Variants {
  std::array<NamedReduce, 3> all{};
  std::size_t count = 0;
  void Add(const char* name, ReduceFunction function) { all[count++] = {name, function}; }
};

// Best last.
const Variants& Available() {
  static const Variants variants = [] {
    Variants v;
    v.Add("base", ReduceBase);
#ifdef DDP_X86_KERNELS
    if (BestInstructionSet() >= InstructionSet::kAvx2) {
      v.Add("avx2", ReduceAvx2);
    }
    if (BestInstructionSet() >= InstructionSet::kAvx512) {
      v.Add("avx512", ReduceAvx512);
    }
#endif
    return v;
  }();
  return variants;
}

}  // namespace

void ReduceToAll(DataType type, ReduceOp op, const void* const* inputs, int world_size,
                 void* const* outs, int out_count, std::size_t count) {
  static const ReduceFunction best = Available().all[Available().count - 1].function;
  best(type, op, inputs, world_size, outs, out_count, count);
}

void Reduce(DataType type, ReduceOp op, const void* const* inputs, int world_size, void* out,
            std::size_t count) {
  ReduceToAll(type, op, inputs, world_size, &out, 1, count);
}

const NamedReduce* ReduceVariantsForTest(std::size_t& count) {
  count = Available().count;
  return Available().all.data();
}

}  // namespace ddp::rt::comm
