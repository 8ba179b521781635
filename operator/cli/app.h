// The command line of kubectl-ddp: what there is to type, and what was typed. Including this costs
// seconds of compile time (CLI11).
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "operator/cli/commands.h"

namespace ddp::cli {

// What was typed; the members of commands that were not named have their defaults.
struct CommandLine {
  RunOptions run;
  ValidateOptions validate;
  RenderOptions render;
  StatusOptions status;
  LogsOptions logs;
  ChangeOptions suspend;
  ChangeOptions resume;
  ChangeOptions restart;
  std::string version_format = kText;
  std::string shell;
};

// An app that fills `line`, which outlives it.
std::unique_ptr<CLI::App> MakeApp(CommandLine& line);

// Runs the command that `app` has parsed.
int RunCommand(const CLI::App& app, const CommandLine& line);

}  // namespace ddp::cli
