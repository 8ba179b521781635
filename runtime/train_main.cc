// ddp-train: what `ddp-worker train` becomes, with its command line: one rank that trains.
#include <CLI/CLI.hpp>
#include <csignal>

#include "runtime/report.h"
#include "runtime/train_arguments.h"
#include "runtime/train_command.h"

namespace ddp::rt {
namespace {

int Run(int argc, char** argv, train::StopSignals& signals) {
  CLI::App app("ddp-train: the part of ddp-worker that trains", "ddp-train");
  app.require_subcommand(1);
  TrainArguments arguments;
  AddTrain(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  return TrainCommand(arguments, ProcessEnv(), signals);
}

}  // namespace
}  // namespace ddp::rt

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  ddp::rt::train::StopSignals signals;
  return ddp::rt::ReportFailure([&] { return ddp::rt::Run(argc, argv, signals); });
}
