// Errors for people.
#pragma once

#include <fmt/format.h>

#include "operator/cli/manifest.h"

namespace ddp::cli {

// Prints the sentences; returns the exit code.
inline int Report(const ManifestError& error) {
  for (const std::string& line : error.lines) {
    fmt::print(stderr, "{}\n", line);
  }
  return error.exit_code;
}

}  // namespace ddp::cli
