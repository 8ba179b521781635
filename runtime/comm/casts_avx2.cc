// The casts for AVX2 and F16C (flags in CMakeLists.txt).
#define DDP_CASTS_NAME kCastsAvx2
#include "runtime/comm/casts.inc"
