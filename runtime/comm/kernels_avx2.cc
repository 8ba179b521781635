// The reduction kernels for AVX2 and F16C (flags in CMakeLists.txt).
#define DDP_REDUCE_NAME ReduceAvx2
#include "runtime/comm/kernels.inc"
