// Errors for people.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace ddp::cli {

// Why a command can't do what it was asked to.
struct CliError {
  int exit_code = 0;               // exit_codes.h
  std::vector<std::string> lines;  // sentences: "FILE: spec.replicas: must be …"
};

// Prints the sentences; returns the exit code.
inline int Report(const CliError& error) {
  for (const std::string& line : error.lines) {
    fmt::print(stderr, "{}\n", line);
  }
  return error.exit_code;
}

}  // namespace ddp::cli
