// What goes wrong, and what the program tells whoever started it.
#pragma once

#include <functional>

#include "runtime/base/error.h"

namespace ddp {

// A std::runtime_error whose what() says what failed, where, and what to do. code() is the exit
// code that the operator's restart policy understands: kUnavailable (69) for a lost peer or
// rendezvous, kConfig (78) for what the user must change, kSoftware (70) for a failure of the
// program.
using rt::Error;
using rt::ExitCode;

// Runs a training program and returns what main() is to return: 0, the code of an Error, or 70 for
// any other exception, which is logged. The other ranks are told the reason at once, so that their
// errors name this rank and not themselves.
int Main(const std::function<void()>& body);

}  // namespace ddp
