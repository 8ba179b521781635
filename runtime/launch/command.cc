#include "runtime/launch/command.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace ddp::rt::launch {
namespace {

constexpr const char* kFooter = R"(
Each option can also be given by a variable, as torchrun's: PET_NPROC_PER_NODE, PET_NNODES, …
Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the rest of torchrun's
variables, and OMP_NUM_THREADS=1 unless it is set or there is one rank.
A signal (SIGTERM, SIGINT, SIGHUP, SIGQUIT) is passed on to the ranks, which then have the grace
period; SIGUSR1 and SIGUSR2 are passed on. When a rank fails the others are ended.

Exit code: that of the rank that failed first (128 + number if a signal ended it; a rank that lost a
peer, 69, only if no other failed); 75 if ranks stopped on request; 0 if all succeeded.

  ddp-worker launch --nproc-per-node 2 ddp-worker train --config train.yaml
  ddp-worker launch --nproc-per-node gpu train.py --epochs 3)";

}  // namespace

CLI::App* AddCommand(CLI::App& app, Flags& flags) {
  CLI::App* launch = app.add_subcommand(
      "launch", "Run several ranks of a program: launch [OPTIONS] PROGRAM [ARGUMENTS]");
  launch->prefix_command();
  launch->footer(kFooter);
  const auto add = [&](const char* name, auto& value, const char* variable, const char* help) {
    launch->add_option(name, value, help)->envname(variable)->capture_default_str();
  };
  add("--nproc-per-node,--nproc_per_node", flags.nproc_per_node, "PET_NPROC_PER_NODE",
      "Ranks on this node: a number, gpu, cpu, or auto (GPUs if there are, else processors)");
  add("--nnodes", flags.nnodes, "PET_NNODES", "Nodes; each runs this launcher");
  add("--node-rank,--node_rank", flags.node_rank, "PET_NODE_RANK", "Which node this is, from 0");
  add("--master-addr,--master_addr", flags.master_addr, "PET_MASTER_ADDR",
      "Host of node 0, needed for several nodes");
  add("--master-port,--master_port", flags.master_port, "PET_MASTER_PORT",
      "Where ranks meet; by default a free port on one node, 29500 on several");
  add("--rdzv-id,--rdzv_id", flags.rdzv_id, "PET_RDZV_ID",
      "Name of the run, the same on all nodes: ranks of other runs are refused");
  add("--max-restarts,--max_restarts", flags.max_restarts, "PET_MAX_RESTARTS",
      "How often to start all ranks again after a failure; anew after 10 minutes of running");
  add("--grace-seconds,--grace_seconds", flags.grace_seconds, "PET_GRACE_SECONDS",
      "From a request to stop to SIGKILL; after a failure at most 5 of them");
  add("--log-dir,--log_dir", flags.log_dir, "PET_LOG_DIR",
      "Folder for RUN/attempt_N/RANK/stdout.log and stderr.log");
  add("-r,--redirects", flags.redirects, "PET_REDIRECTS",
      "To files only: 1 standard output, 2 standard error, 3 both; or by local rank: 0:1,1:3");
  add("-t,--tee", flags.tee, "PET_TEE",
      "To files and the console, in the same way; 3 with --log-dir");
  add("--local-ranks-filter,--local_ranks_filter", flags.local_ranks_filter,
      "PET_LOCAL_RANKS_FILTER", "Show only these local ranks' output: 0,2");
  launch->add_flag("--standalone", flags.standalone, "One node, a free port, a name of its own")
      ->envname("PET_STANDALONE");
  return launch;
}

std::optional<std::vector<std::string>> CutAtDashes(int& argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "launch") {
    return std::nullopt;
  }
  char** end = argv + argc;
  char** dashes =
      std::find_if(argv, end, [](const char* text) { return std::string_view(text) == "--"; });
  if (dashes == end) {
    return std::nullopt;
  }
  argc = static_cast<int>(dashes - argv);
  return std::vector<std::string>(dashes + 1, end);
}

void TakeCommand(const CLI::App& launch, const std::optional<std::vector<std::string>>& cut,
                 Flags& flags) {
  flags.command = launch.remaining();
  if (cut && !flags.command.empty()) {
    flags.command.emplace_back("--");  // one of the program's own
  }
  if (cut) {
    flags.command.insert(flags.command.end(), cut->begin(), cut->end());
  }
}

}  // namespace ddp::rt::launch
