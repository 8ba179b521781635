#include "ddp/version.h"

namespace ddp {

const char* Version() { return DDP_VERSION; }

}  // namespace ddp
