// ddp-worker: runs, launches and looks after ranks of a training job. Results for people go to
// standard output, everything else to standard error; the exit code tells the operator what to do
// next (runtime/base/error.h). It does without libtorch, and so starts at once: `train` becomes the
// program ddp-train, which lies beside this one.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>

#include "runtime/base/memory.h"
#include "runtime/base/net.h"
#include "runtime/checkpoint_command.h"
#include "runtime/launch/command.h"
#include "runtime/launch/launcher.h"
#include "runtime/report.h"
#include "runtime/train_arguments.h"

namespace ddp::rt {
namespace {

constexpr const char* kFooter = R"(
Environment of a rank (set by the operator, kubectl-ddp, ddp-worker launch or torchrun; without it:
one rank alone):
  RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK, LOCAL_WORLD_SIZE
  DDP_CHECKPOINT_DIR   folder of checkpoints, unless checkpoint.dir of the config says
  DDP_DATA_DIR         where a relative data.path of the config is looked up first
  DDP_PROGRESS_PORT    port of /metrics, /progress, /healthz and /readyz (LOCAL_RANK is added)
  DDP_LOG=json         log lines as JSON objects

Exit codes:
  0 finished         64 wrong command line    65 data damaged      66 data missing
  69 lost a rank     70 failure in training   75 stopped on request, checkpoint saved
  78 wrong configuration)";

std::filesystem::path ThisProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

// Returns only if that fails.
int BecomeTrainProgram(char** argv) {
  const auto program = ThisProgram().parent_path() / "ddp-train";
  UseHugePages();
  execv(program.c_str(), argv);
  throw Error(ExitCode::kSoftware,
              fmt::format("can't run {}, which is installed beside ddp-worker: {}",
                          program.string(), ErrnoText(errno)));
}

int Run(int argc, char** argv) {
  CLI::App app("ddp-worker: one rank of a data-parallel training job", "ddp-worker");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_version_flag("--version", "ddp-worker " DDP_VERSION);
  TrainArguments train_arguments;
  const CLI::App* train = AddTrain(app, train_arguments);
  launch::Flags flags;
  const CLI::App* launch = launch::AddCommand(app, flags);
  CheckpointArguments checkpoint_arguments;
  AddCheckpoint(app, checkpoint_arguments);
  const CLI::App* version = app.add_subcommand("version", "Print the version");
  const auto cut = launch::CutAtDashes(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  if (*version) {
    fmt::print("ddp-worker {}\n", DDP_VERSION);
    return 0;
  }
  if (*train) {
    return BecomeTrainProgram(argv);
  }
  if (*launch) {
    launch::TakeCommand(*launch, cut, flags);
    launch::Options options = launch::ReadFlags(flags, launch::ThisHost());
    if (options.command.front() == "ddp-worker") {  // this one, wherever it lies
      options.command.front() = ThisProgram().string();
    }
    return launch::Launch(options);
  }
  return CheckpointCommand(checkpoint_arguments);
}

}  // namespace
}  // namespace ddp::rt

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  return ddp::rt::ReportFailure([&] { return ddp::rt::Run(argc, argv); });
}
