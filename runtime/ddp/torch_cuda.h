// libtorch's CUDA part, which a program loads only where there is a GPU: it has many libraries, and
// takes seconds. Thread-safe.
#pragma once

#include <string>

namespace ddp::rt {

// Loads libtorch_cuda.so, which is looked for as the program's other libraries are, unless it is
// there already. "", or a sentence why it can't be loaded. To be called before libtorch is first
// asked about CUDA, as it keeps its answer. The same answer each time.
std::string LoadTorchCuda();

}  // namespace ddp::rt
