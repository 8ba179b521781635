// The reduction kernels for what every CPU of the architecture has (flags in CMakeLists.txt).
#define DDP_REDUCE_NAME ReduceBase
#include "runtime/comm/kernels.inc"
