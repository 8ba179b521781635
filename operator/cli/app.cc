#include "operator/cli/app.h"

#include "operator/cli/exit_codes.h"

namespace ddp::cli {
namespace {

constexpr const char* kFooter = R"(
On this machine:
  kubectl-ddp run -f mnist.yaml        train, every rank a process (Ctrl-C stops all)
  kubectl-ddp validate -f mnist.yaml   say what is wrong with a manifest, and where
  kubectl-ddp render -f mnist.yaml     show what the operator would create

On a cluster (kubectl apply -f mnist.yaml starts a job there):
  kubectl ddp status mnist             how far it is, how its ranks are, why it last failed
  kubectl ddp status mnist --wait      wait for its end; the exit code tells how it ended
  kubectl ddp logs mnist -f            what rank 0 says, through restarts; --rank all for all
  kubectl ddp suspend | resume | restart mnist

Completion: source <(kubectl-ddp completion bash), or zsh. `run` keeps what it makes in
./.ddp/<job>: logs/, checkpoints/, status.json.

Exit codes:
  0 all is well, the job succeeded     1 the job failed              64 wrong command line
  65 the manifest is wrong, or the job's state does not allow it     66 no such file, job or pod
  69 this machine or the cluster does not let us                     75 --timeout has passed
  77 the API server refuses it to you                                130 stopped by Ctrl-C or SIGTERM)";

constexpr const char* kFileHelp = "The manifest, YAML or JSON; - is standard input";

void AddCluster(CLI::App& command, ClusterOptions& cluster, std::string& job) {
  command.add_option("job", job, "Name of the DDPJob")->required();
  command.add_option("-n,--namespace", cluster.name_space, "Where it is (default: the context's)");
  command.add_option("--context", cluster.context, "Context of the kubeconfig to use");
  command.add_option("--kubeconfig", cluster.kubeconfig,
                     "The kubeconfig (default: $KUBECONFIG, else ~/.kube/config)");
}

void AddFormat(CLI::App& command, std::string& format) {
  command.add_option("-o,--output", format, "text, json or yaml")
      ->check(CLI::IsMember({kText, kJson, kYaml}))
      ->capture_default_str();
}

// "90", "90s", "10m", "2h"
void AddTimeout(CLI::App& command, std::chrono::seconds& timeout, const char* default_text) {
  command
      .add_option_function<std::string>(
          "--timeout",
          [&timeout](const std::string& text) {
            size_t digits = 0;
            while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
              ++digits;
            }
            const std::string unit = text.substr(digits);
            const long scale = unit.empty() || unit == "s" ? 1
                               : unit == "m"               ? 60
                               : unit == "h"               ? 3600
                                                           : 0;
            constexpr size_t kMostDigits = 7;
            if (digits == 0 || digits > kMostDigits || scale == 0 || std::stol(text) == 0) {
              throw CLI::ValidationError("--timeout",
                                         "'" + text + "' is no time: write 90s, 10m or 2h");
            }
            timeout = std::chrono::seconds(std::stol(text) * scale);
          },
          std::string("How long to wait at most, such as 90s, 10m or 2h (default: ") +
              default_text + ")")
      ->type_name("TIME");
}

void AddLocal(CLI::App& app, CommandLine& line) {
  CLI::App* run = app.add_subcommand("run", "Train on this machine, every rank a process");
  run->add_option("-f,--filename", line.run.file, kFileHelp)->required();
  run->add_flag("--fresh", line.run.fresh,
                "Remove what earlier runs of the job left, checkpoints too, and start at step 0");

  CLI::App* validate = app.add_subcommand("validate", "Check a manifest");
  validate->add_option("-f,--filename", line.validate.file, kFileHelp)->required();
  AddFormat(*validate, line.validate.format);

  CLI::App* render = app.add_subcommand("render", "Print what the operator would create");
  render->add_option("-f,--filename", line.render.file, kFileHelp)->required();
  render->add_option("-o,--output", line.render.format, "yaml or json")
      ->check(CLI::IsMember({kYaml, kJson}))
      ->capture_default_str();
  render->add_option("--rank", line.render.rank, "The pod of this rank only");
  render->add_flag("--network-policy", line.render.network_policy,
                   "What an operator with --network-policies would create too");
}

void AddLooking(CLI::App& app, CommandLine& line) {
  CLI::App* status = app.add_subcommand("status", "Show how a job in a cluster is");
  AddCluster(*status, line.status.cluster, line.status.job);
  AddFormat(*status, line.status.format);
  status
      ->add_option_function<std::string>(
          "--wait", [&line](const std::string& phase) { line.status.wait = phase; },
          "Wait for the job's end, or with =PHASE for that phase; 1 if it can't come any more")
      ->expected(0, 1)
      ->default_str("")
      ->type_name("[=PHASE]")
      ->check(CLI::IsMember({"", "Pending", "Starting", "Running", "Restarting", "Suspended",
                             "Succeeded", "Failed"}));
  AddTimeout(*status, line.status.timeout, "as long as it takes");

  CLI::App* logs = app.add_subcommand("logs", "Show what the ranks of a job say");
  AddCluster(*logs, line.logs.cluster, line.logs.job);
  logs->add_option("--rank", line.logs.ranks, "A rank, a set such as 0-3,7, or all")
      ->capture_default_str();
  logs->add_option("--attempt", line.logs.attempt, "An attempt (default: the newest with pods)")
      ->check(CLI::PositiveNumber);
  logs->add_flag("-f,--follow", line.logs.follow,
                 "Go on with what comes, and with the next attempt unless one is named");
  logs->add_option("--tail", line.logs.tail, "Only so many of the last lines")
      ->check(CLI::NonNegativeNumber);
  logs->add_flag("--timestamps", line.logs.timestamps, "Each line's time in front of it");
}

void AddChange(CLI::App& app, ChangeOptions& options, const char* name, const char* help) {
  CLI::App* command = app.add_subcommand(name, help);
  AddCluster(*command, options.cluster, options.job);
  AddFormat(*command, options.format);
  command->add_flag("--wait", options.wait, "Until it has been carried out");
  AddTimeout(*command, options.timeout, "10m");
}

}  // namespace

std::unique_ptr<CLI::App> MakeApp(CommandLine& line) {
  auto app = std::make_unique<CLI::App>(
      "kubectl-ddp: data-parallel training jobs, on this machine or on Kubernetes", "kubectl-ddp");
  app->require_subcommand(1);
  app->footer(kFooter);
  app->set_version_flag("--version", "kubectl-ddp " DDP_VERSION);
  AddLocal(*app, line);
  AddLooking(*app, line);
  AddChange(*app, line.suspend, "suspend", "End a job's pods and keep the job");
  AddChange(*app, line.resume, "resume", "Let a suspended job go on from its newest checkpoint");
  AddChange(*app, line.restart, "restart",
            "Give the current attempt up and begin the next, uncounted");
  AddFormat(*app->add_subcommand("version", "Print the version"), line.version_format);
  app->add_subcommand("completion", "Print the script that teaches a shell to complete")
      ->add_option("shell", line.shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  return app;
}

int RunCommand(const CLI::App& app, const CommandLine& line) {
  const std::string name = app.get_subcommands().front()->get_name();
  if (name == "run") {
    return Run(line.run);
  }
  if (name == "validate") {
    return Validate(line.validate);
  }
  if (name == "render") {
    return Render(line.render);
  }
  if (name == "status") {
    return Status(line.status);
  }
  if (name == "logs") {
    return Logs(line.logs);
  }
  if (name == "version") {
    return Version(line.version_format);
  }
  if (name == "completion") {
    return PrintCompletionScript(line.shell);
  }
  if (name == "suspend") {
    return ChangeJob(Change::kSuspend, line.suspend);
  }
  return name == "resume" ? ChangeJob(Change::kResume, line.resume)
                          : ChangeJob(Change::kRestart, line.restart);
}

}  // namespace ddp::cli
