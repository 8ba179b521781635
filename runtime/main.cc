// ddp-worker: one rank of a training job. Results for people go to standard output, everything else
// to standard error; the exit code tells the operator what to do next (runtime/base/error.h).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/train/signals.h"
#include "runtime/train_command.h"

namespace ddp::rt {
namespace {

constexpr const char* kFooter = R"(
Environment of a rank (set by the operator, kubectl-ddp or torchrun; without it: one rank alone):
  RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK, LOCAL_WORLD_SIZE
  DDP_CHECKPOINT_DIR   folder of checkpoints, unless checkpoint.dir of the config says
  DDP_DATA_DIR         where a relative data.path of the config is looked up first
  DDP_PROGRESS_PORT    port of /metrics, /progress, /healthz and /readyz (LOCAL_RANK is added)
  DDP_LOG=json         log lines as JSON objects

Exit codes:
  0 finished         64 wrong command line    65 data damaged      66 data missing
  69 lost a rank     70 failure in training   75 stopped on request, checkpoint saved
  78 wrong configuration)";

// One line a checkpoint, newest first.
int ListCheckpoints(const std::string& folder) {
  const auto all = checkpoint::CheckpointFolder(folder, 1).List();
  for (const auto& found : all) {
    fmt::print("{}  {}\n", found.path.string(),
               found.problem.empty() ? "valid" : "damaged: " + found.problem);
  }
  if (all.empty()) {
    throw Error(ExitCode::kNoInput, fmt::format("there are no checkpoints in {}", folder));
  }
  return 0;
}

int VerifyCheckpoints(const std::string& folder) {
  ListCheckpoints(folder);
  for (const auto& found : checkpoint::CheckpointFolder(folder, 1).List()) {
    if (!found.problem.empty()) {
      throw Error(ExitCode::kData,
                  fmt::format("{} is damaged: {}", found.path.string(), found.problem));
    }
  }
  return 0;
}

int Run(int argc, char** argv, train::StopSignals& signals) {
  CLI::App app("ddp-worker: one rank of a data-parallel training job", "ddp-worker");
  app.require_subcommand(1);
  app.footer(kFooter);

  TrainArguments arguments;
  CLI::App* train = app.add_subcommand("train", "Train a model as one rank");
  auto* source = train->add_option_group("config", "Where the config (YAML) comes from");
  source->add_option("--config", arguments.config_file, "File with the config");
  source->add_option("--config-env", arguments.config_env,
                     "Name of the environment variable with the config");
  source->require_option(1);

  std::string folder;
  CLI::App* checkpoints = app.add_subcommand("checkpoint", "Look at checkpoints");
  checkpoints->require_subcommand(1);
  CLI::App* list =
      checkpoints->add_subcommand("list", "Say of each checkpoint whether it is valid");
  CLI::App* verify = checkpoints->add_subcommand("verify", "The same, and fail if one is not");
  list->add_option("folder", folder, "Folder of checkpoints")->required();
  verify->add_option("folder", folder, "Folder of checkpoints")->required();
  CLI::App* version = app.add_subcommand("version", "Print the version");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  if (*version) {
    fmt::print("ddp-worker {}\n", DDP_VERSION);
    return 0;
  }
  if (*list) {
    return ListCheckpoints(folder);
  }
  if (*verify) {
    return VerifyCheckpoints(folder);
  }
  return TrainCommand(arguments, ProcessEnv(), signals);
}

int RunAndReport(int argc, char** argv, train::StopSignals& signals) {
  try {
    return Run(argc, argv, signals);
  } catch (const Error& e) {
    Log(Level::kError, "{}", e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    Log(Level::kError, "unexpected failure: {}", e.what());
    return static_cast<int>(ExitCode::kSoftware);
  }
}

}  // namespace
}  // namespace ddp::rt

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  ddp::rt::train::StopSignals signals;
  return ddp::rt::RunAndReport(argc, argv, signals);
}
