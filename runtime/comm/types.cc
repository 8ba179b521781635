#include "runtime/comm/types.h"

namespace ddp::rt::comm {

const char* Name(DataType type) {
  constexpr const char* kNames[] = {"f32", "f64", "bf16", "f16", "i32", "i64"};
  return kNames[static_cast<int>(type)];
}

const char* Name(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "mean", "max"};
  return kNames[static_cast<int>(op)];
}

}  // namespace ddp::rt::comm
