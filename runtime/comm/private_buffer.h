// Zeroed, 64-byte aligned memory of this process alone: what transports allocate that share none.
#pragma once

#include <memory>

#include "runtime/comm/process_group.h"

namespace ddp::rt::comm {

std::unique_ptr<Buffer> AllocatePrivate(std::size_t bytes);

}  // namespace ddp::rt::comm
