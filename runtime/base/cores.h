// How many processors this process may use. Thread-safe.
#pragma once

namespace ddp::rt {

// The smaller of the processors that it may run on and the processor time that its container has;
// at least one.
int UsableCores();

}  // namespace ddp::rt
