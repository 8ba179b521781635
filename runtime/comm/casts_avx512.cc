// The casts for AVX-512 (flags in CMakeLists.txt).
#define DDP_CASTS_NAME kCastsAvx512
#include "runtime/comm/casts.inc"
