// The commands of kubectl-ddp. Each prints for people (errors on standard error) and returns the
// exit code (exit_codes.h).
#pragma once

#include <optional>
#include <string>

namespace ddp::cli {

int Validate(const std::string& file);

struct RenderOptions {
  std::string file;
  std::string format = "yaml";  // or json
  std::optional<int> rank;      // one pod instead of all
};
int Render(const RenderOptions& options);

struct RunOptions {
  std::string file;
  bool fresh = false;  // forget what earlier runs left
};
// Takes the signals of this process over: no thread may run yet.
int Run(const RunOptions& options);

}  // namespace ddp::cli
