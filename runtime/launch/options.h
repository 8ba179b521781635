// What `ddp-worker launch` is asked for: torchrun's flags, read and checked. Pure: texts in, plain
// data out; the host's processors and GPUs are handed in.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::rt::launch {

// The flags as texts, from the command line or their PET_* variables.
struct Flags {
  std::string nproc_per_node = "1";
  std::string nnodes = "1";
  int node_rank = 0;
  std::string master_addr;
  int master_port = 0;
  std::string rdzv_id;
  bool standalone = false;
  int max_restarts = 0;
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string local_ranks_filter;
  int grace_seconds = 30;
  std::vector<std::string> command;
};

// What this host has for ranks.
struct Host {
  int cores = 1;
  int gpus = 0;
};
Host ThisHost();

// Where what a rank writes goes.
struct Output {
  bool to_console = true;
  bool to_file = false;
};

struct Options {
  int processes = 1;  // ranks of this node
  int nodes = 1;
  int node_rank = 0;
  std::string master_addr;
  int master_port = 0;  // 0 = a free one
  std::string run_id;
  int max_restarts = 0;
  std::string log_dir;                  // "" = no files
  std::vector<Output> standard_output;  // of each local rank
  std::vector<Output> standard_error;
  std::chrono::seconds grace{30};
  std::vector<std::string> command;

  int world_size() const { return processes * nodes; }
};

// Error(kUsage) says which flag is wrong and what it should be.
Options ReadFlags(const Flags& flags, const Host& host);

}  // namespace ddp::rt::launch
