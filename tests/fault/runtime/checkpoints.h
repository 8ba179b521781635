// What a job's ranks have saved, for tests that compare runs.
#pragma once

#include "runtime/checkpoint/folder.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {

// The newest valid checkpoint, with all shards of the optimizer. Fails the test, and throws, if
// there is none.
checkpoint::Loaded Newest(const Job& job);

// Over all parameters and buffers of floats; the other tensors must be equal to the bit. Fails the
// test if the two do not hold the same tensors.
float MaxDifference(const checkpoint::Loaded& a, const checkpoint::Loaded& b);

}  // namespace ddp::rt
