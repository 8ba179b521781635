// Which instruction sets the kernels may use on this CPU. Thread-safe.
#pragma once

#include <cstdint>

namespace ddp::rt::comm {

// Each includes the ones before it. Other architectures than x86-64 have the base only.
enum class InstructionSet : std::uint8_t { kBase, kAvx2 /* with F16C */, kAvx512 /* F BW DQ VL */ };

// Asked of the CPU once.
InstructionSet BestInstructionSet();

const char* Name(InstructionSet set);

}  // namespace ddp::rt::comm
