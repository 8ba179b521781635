#include "runtime/base/memory.h"

#include <cstdlib>

namespace ddp::rt {

void UseHugePages() { setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", /*overwrite=*/0); }

}  // namespace ddp::rt
