#include "runtime/comm/casts.h"

namespace ddp::rt::comm {

extern const CastKernels kCastsBase;
#ifdef DDP_X86_KERNELS
extern const CastKernels kCastsAvx2;
extern const CastKernels kCastsAvx512;
#endif

namespace {

const CastKernels& Of(InstructionSet set) {
#ifdef DDP_X86_KERNELS
  switch (set) {
    case InstructionSet::kAvx512:
      return kCastsAvx512;
    case InstructionSet::kAvx2:
      return kCastsAvx2;
    case InstructionSet::kBase:
      break;
  }
#else
  static_cast<void>(set);
#endif
  return kCastsBase;
}

const CastKernels& Best() {
  static const CastKernels& best = Of(BestInstructionSet());
  return best;
}

}  // namespace

void Widen(DataType type, const void* in, float* out, std::size_t count) {
  Best().widen(type, in, out, count);
}

void Narrow(DataType type, const float* in, void* out, std::size_t count) {
  Best().narrow(type, in, out, count);
}

void DivideSum(DataType type, void* sums, int world_size, std::size_t count) {
  Best().divide(type, sums, world_size, count);
}

const CastKernels& CastsForTest(InstructionSet set) { return Of(set); }

}  // namespace ddp::rt::comm
