// The default random generators of all ranks, as they lie in a checkpoint's record. Collective
// calls on the default group; internal to this folder.
#pragma once

#include "runtime/checkpoint/record.h"

namespace ddp {

// "rng.RANK" to the state of that rank's generators, of the CPU and of its GPU; on rank 0. The
// others get nothing.
rt::checkpoint::State GatherRandomGenerators();

// From rank 0's `state`. A rank that is not in it, or whose generators are of another kind, keeps
// its own.
void RestoreRandomGenerators(const rt::checkpoint::State& state);

}  // namespace ddp
