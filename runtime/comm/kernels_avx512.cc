// The reduction kernels for AVX-512 F, BW, DQ and VL (flags in CMakeLists.txt).
#define DDP_REDUCE_NAME ReduceAvx512
#include "runtime/comm/kernels.inc"
