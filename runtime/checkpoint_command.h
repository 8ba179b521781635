// `ddp-worker checkpoint`: looks at checkpoints. Needs no torch.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace ddp::rt {

struct CheckpointArguments {
  enum class Action { kList, kVerify, kExport };
  Action action = Action::kList;
  std::string folder;
  std::string to;          // export
  bool optimizer = false;  // export
};

void AddCheckpoint(CLI::App& app, CheckpointArguments& arguments);

// The code to end the program with; failures are exceptions.
int CheckpointCommand(const CheckpointArguments& arguments);

}  // namespace ddp::rt
