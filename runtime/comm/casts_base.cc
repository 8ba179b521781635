// The casts for the base instruction set.
#define DDP_CASTS_NAME kCastsBase
#include "runtime/comm/casts.inc"
