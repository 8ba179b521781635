// The command line of `ddp-worker launch`.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/options.h"

namespace ddp::rt::launch {

// Adds the subcommand, which fills `flags`; it may be called once a program.
CLI::App* AddCommand(CLI::App& app, Flags& flags);

// For the parser, which takes what follows "--" for options of the whole program: cuts the command
// line before the first "--" of a launch; returns what came after it, or nothing if there is none.
std::optional<std::vector<std::string>> CutAtDashes(int& argc, char** argv);

// After parsing: what to run, from what the subcommand left over and what was cut off.
void TakeCommand(const CLI::App& launch, const std::optional<std::vector<std::string>>& cut,
                 Flags& flags);

}  // namespace ddp::rt::launch
