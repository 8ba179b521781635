#include "runtime/checkpoint_command.h"

#include <fmt/format.h>

#include <vector>

#include "runtime/base/error.h"
#include "runtime/checkpoint/export.h"
#include "runtime/checkpoint/folder.h"

namespace ddp::rt {
namespace {

// One line a checkpoint, newest first.
std::vector<checkpoint::Found> List(const std::string& folder) {
  auto all = checkpoint::CheckpointFolder(folder, 1).List();
  for (const auto& found : all) {
    fmt::print("{}  {}\n", found.path.string(),
               found.problem.empty() ? "valid" : "damaged: " + found.problem);
  }
  if (all.empty()) {
    throw Error(ExitCode::kNoInput, fmt::format("there are no checkpoints in {}", folder));
  }
  return all;
}

void Verify(const std::string& folder) {
  for (const auto& found : List(folder)) {
    if (!found.problem.empty()) {
      throw Error(ExitCode::kData,
                  fmt::format("{} is damaged: {}", found.path.string(), found.problem));
    }
  }
}

}  // namespace

void AddCheckpoint(CLI::App& app, CheckpointArguments& arguments) {
  CLI::App* checkpoints = app.add_subcommand("checkpoint", "Look at checkpoints");
  checkpoints->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, CheckpointArguments::Action action) {
    CLI::App* command = checkpoints->add_subcommand(name, help);
    command->add_option("folder", arguments.folder, "Folder of checkpoints")->required();
    command->callback([&arguments, action] { arguments.action = action; });
    return command;
  };
  add("list", "Say of each checkpoint whether it is valid", CheckpointArguments::Action::kList);
  add("verify", "The same, and fail if one is not", CheckpointArguments::Action::kVerify);
  CLI::App* take = add("export", "Take the newest valid one, or the one named, out of the run",
                       CheckpointArguments::Action::kExport);
  take->add_option("to", arguments.to,
                   "A new folder, for model.safetensors and config.json; or FILE.safetensors")
      ->required();
  take->add_flag("--optimizer", arguments.optimizer, "The optimizer's state as well, whole");
}

int CheckpointCommand(const CheckpointArguments& arguments) {
  switch (arguments.action) {
    case CheckpointArguments::Action::kList:
      List(arguments.folder);
      break;
    case CheckpointArguments::Action::kVerify:
      Verify(arguments.folder);
      break;
    case CheckpointArguments::Action::kExport:
      fmt::print(
          "exported {} to {}\n",
          checkpoint::Export(
              {.from = arguments.folder, .to = arguments.to, .optimizer = arguments.optimizer})
              .string(),
          arguments.to);
      break;
  }
  return 0;
}

}  // namespace ddp::rt
