#include "runtime/comm/cpu.h"

#ifdef DDP_X86_KERNELS
#include <cpuid.h>
#endif

namespace ddp::rt::comm {
namespace {

#ifdef DDP_X86_KERNELS
// Asked of the CPU itself: not every compiler's __builtin_cpu_supports knows the name.
bool HasF16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

InstructionSet AskCpu() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !HasF16c()) {
    return InstructionSet::kBase;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? InstructionSet::kAvx512 : InstructionSet::kAvx2;
}
#else
InstructionSet AskCpu() { return InstructionSet::kBase; }
#endif

}  // namespace

InstructionSet BestInstructionSet() {
  static const InstructionSet best = AskCpu();
  return best;
}

const char* Name(InstructionSet set) {
  constexpr const char* kNames[] = {"base", "avx2", "avx512"};
  return kNames[static_cast<int>(set)];
}

}  // namespace ddp::rt::comm
