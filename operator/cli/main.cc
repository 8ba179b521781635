// kubectl-ddp: looks at, renders and runs DDPJobs. Found by kubectl as `kubectl ddp`.
#include <fmt/format.h>

#include <exception>
#include <string_view>

#include "operator/base/log.h"
#include "operator/cli/app.h"
#include "operator/cli/complete.h"
#include "operator/cli/exit_codes.h"
#include "operator/ddpjob/local/supervisor.h"

namespace {

namespace cli = ddp::cli;

int Main(int argc, char** argv) {
  // The libraries' own words are for operators; what goes wrong here is said in sentences.
  ddp::base::SetLogLevel(ddp::base::Level::kError);
  if (argc > 1 && std::string_view(argv[1]) == cli::kCompleteCommand) {
    return cli::PrintCandidates({argv + 2, argv + argc});
  }
  cli::CommandLine line;
  const auto app = cli::MakeApp(line);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app->exit(error);
    return code == 0 ? cli::kExitOk : cli::kExitUsage;
  }
  return cli::RunCommand(*app, line);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == ddp::job::kSuperviseCommand) {
    return ddp::job::Supervise(argv + 2);
  }
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "kubectl-ddp: {}\n", error.what());
    return cli::kExitUnavailable;
  }
}
