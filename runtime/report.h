// How the programs of the runtime end: a failure is one line of the log and an exit code.
#pragma once

#include <exception>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace ddp::rt {

// The result of `run`, or the code of what it threw.
template <typename Run>
int ReportFailure(Run run) {
  try {
    return run();
  } catch (const Error& e) {
    Log(Level::kError, "{}", e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    Log(Level::kError, "unexpected failure: {}", e.what());
    return static_cast<int>(ExitCode::kSoftware);
  }
}

}  // namespace ddp::rt
