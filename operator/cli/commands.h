// The commands of kubectl-ddp. Each prints for people (errors on standard error) and returns the
// exit code (exit_codes.h).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "operator/cli/cluster.h"
#include "operator/cli/output.h"

namespace ddp::cli {

// ---- a manifest ---------------------------------------------------------------------------------

struct ValidateOptions {
  std::string file;
  std::string format = kText;
};
int Validate(const ValidateOptions& options);

struct RenderOptions {
  std::string file;
  std::string format = kYaml;   // or kJson
  std::optional<int> rank;      // the pod of that rank instead of all
  bool network_policy = false;  // as of an operator with --network-policies
};
int Render(const RenderOptions& options);

struct RunOptions {
  std::string file;
  bool fresh = false;  // forget what earlier runs left
};
// Takes the signals of this process over: no thread may run yet.
int Run(const RunOptions& options);

// ---- a job in a cluster -------------------------------------------------------------------------

struct StatusOptions {
  ClusterOptions cluster;
  std::string job;
  std::string format = kText;
  std::optional<std::string> wait;  // for this phase; "": for the end
  std::chrono::seconds timeout{0};  // of waiting; 0: as long as it takes
};
int Status(const StatusOptions& options);

struct LogsOptions {
  ClusterOptions cluster;
  std::string job;
  std::string ranks = "0";     // a set such as "0-3,7", or "all"
  std::optional<int> attempt;  // nothing: the current one
  bool follow = false;         // through restarts, unless an attempt is named
  std::optional<int64_t> tail;
  bool timestamps = false;
};
int Logs(const LogsOptions& options);

enum class Change { kSuspend, kResume, kRestart };
struct ChangeOptions {
  ClusterOptions cluster;
  std::string job;
  std::string format = kText;
  bool wait = false;  // until it has been carried out
  std::chrono::seconds timeout{0};
};
int ChangeJob(Change change, const ChangeOptions& options);

// ---- the program itself -------------------------------------------------------------------------

int Version(const std::string& format);
// The script that teaches a shell, "bash" or "zsh", to complete.
int PrintCompletionScript(const std::string& shell);

}  // namespace ddp::cli
