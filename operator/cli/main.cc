// kubectl-ddp: looks at, renders and runs DDPJob manifests. Found by kubectl as `kubectl ddp`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <string_view>

#include "operator/cli/commands.h"
#include "operator/cli/exit_codes.h"
#include "operator/ddpjob/local/supervisor.h"

namespace {

namespace cli = ddp::cli;

constexpr const char* kFooter = R"(
Start here:
  kubectl-ddp run -f mnist.yaml        train on this machine, every rank a process (Ctrl-C stops all)
  kubectl-ddp validate -f mnist.yaml   say what is wrong with a manifest, and where
  kubectl apply -f mnist.yaml          train on a cluster that has the operator
  kubectl get ddp                      see how it goes there

`run` keeps what it makes in ./.ddp/<job>: logs/, checkpoints/, status.json.

Exit codes:
  0 all is well, the job succeeded     1 the job failed              64 wrong command line
  65 the manifest is wrong             66 there is no such file      69 this machine does not let us
  130 stopped by Ctrl-C or SIGTERM)";

int Main(int argc, char** argv) {
  CLI::App app("kubectl-ddp: data-parallel training jobs, on this machine or on Kubernetes",
               "kubectl-ddp");
  app.require_subcommand(1);
  app.footer(kFooter);
  constexpr const char* kFileHelp = "The manifest, YAML or JSON; - is standard input";

  cli::RunOptions run_options;
  CLI::App* run = app.add_subcommand("run", "Train on this machine, every rank a process");
  run->add_option("-f,--filename", run_options.file, kFileHelp)->required();
  run->add_flag("--fresh", run_options.fresh,
                "Remove what earlier runs of the job left, checkpoints too, and start at step 0");

  std::string validate_file;
  CLI::App* validate = app.add_subcommand("validate", "Check a manifest");
  validate->add_option("-f,--filename", validate_file, kFileHelp)->required();

  cli::RenderOptions render_options;
  CLI::App* render =
      app.add_subcommand("render", "Print the service and the pods that the operator would create");
  render->add_option("-f,--filename", render_options.file, kFileHelp)->required();
  render->add_option("-o,--output", render_options.format, "Format: yaml or json")
      ->check(CLI::IsMember({"yaml", "json"}))
      ->capture_default_str();
  render->add_option("--rank", render_options.rank, "This rank's pod only");

  CLI::App* version = app.add_subcommand("version", "Print the version");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? cli::kExitOk : cli::kExitUsage;
  }
  if (version->parsed()) {
    fmt::print("kubectl-ddp {}\n", DDP_VERSION);
    return cli::kExitOk;
  }
  if (validate->parsed()) {
    return cli::Validate(validate_file);
  }
  return render->parsed() ? cli::Render(render_options) : cli::Run(run_options);
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
