#include "runtime/launch/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <random>

#include "runtime/base/cores.h"
#include "runtime/base/error.h"

namespace ddp::rt::launch {
namespace {

constexpr int kMaxProcesses = 4096;
constexpr int kMaxNodes = 100'000;
constexpr int kDefaultPort = 29500;  // torchrun's, for several nodes

[[noreturn]] void Wrong(const std::string& what) { throw Error(ExitCode::kUsage, what); }

std::optional<int> Number(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() ? std::optional(value)
                                                                   : std::nullopt;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  }
  return parts;
}

int Processes(const std::string& text, const Host& host) {
  if (text == "cpu") {
    return host.cores;
  }
  if (text == "gpu" && host.gpus == 0) {
    Wrong("--nproc-per-node gpu: this host shows no GPU; give a number, or cpu");
  }
  if (text == "gpu" || text == "auto") {
    return host.gpus > 0 ? host.gpus : host.cores;
  }
  const auto number = Number(text);
  if (!number || *number < 1 || *number > kMaxProcesses) {
    Wrong(fmt::format("--nproc-per-node '{}' must be a number from 1 to {}, auto, gpu or cpu", text,
                      kMaxProcesses));
  }
  return *number;
}

// "2", or torchrun's "2:2".
int Nodes(const std::string& text) {
  const auto parts = Split(text, ':');
  const auto low = parts.empty() ? std::nullopt : Number(parts.front());
  const auto high = parts.empty() ? std::nullopt : Number(parts.back());
  if (!low || !high || parts.size() > 2 || *low < 1 || *low > kMaxNodes) {
    Wrong(fmt::format("--nnodes '{}' must be a number from 1 to {}", text, kMaxNodes));
  }
  if (*low != *high) {
    Wrong(
        fmt::format("--nnodes {}: a range needs elastic jobs, which are not supported; give one "
                    "number",
                    text));
  }
  return *low;
}

// A mask of 1 (standard output) and 2 (standard error) for each local rank: "3", or "0:1,2:3" for
// some ranks only, as torchrun has it.
std::vector<int> Masks(const char* flag, const std::string& text, int processes) {
  const auto mask = [&](std::string_view part) {
    const auto value = Number(part);
    if (!value || *value < 0 || *value > 3) {
      Wrong(
          fmt::format("{} '{}' must be 0 (none), 1 (standard output), 2 (standard error) or 3 "
                      "(both), or such for some local ranks: 0:1,1:3",
                      flag, text));
    }
    return *value;
  };
  const auto size = static_cast<size_t>(processes);
  if (text.find(':') == std::string::npos) {
    return std::vector<int>(size, mask(text));
  }
  std::vector<int> masks(size, 0);
  for (const auto part : Split(text, ',')) {
    const size_t colon = part.find(':');
    const auto rank = Number(part.substr(0, colon));
    if (colon == std::string_view::npos || !rank || *rank < 0 || *rank >= processes) {
      Wrong(fmt::format("{} '{}': '{}' names no local rank from 0 to {}", flag, text, part,
                        processes - 1));
    }
    masks[static_cast<size_t>(*rank)] = mask(part.substr(colon + 1));
  }
  return masks;
}

std::set<int> Filter(const std::string& text, int processes) {
  std::set<int> ranks;
  for (const auto part : Split(text, ',')) {
    const auto rank = Number(part);
    if (!rank || *rank < 0 || *rank >= processes) {
      Wrong(fmt::format("--local-ranks-filter '{}': '{}' is no local rank from 0 to {}", text, part,
                        processes - 1));
    }
    ranks.insert(*rank);
  }
  return ranks;
}

void ReadOutputs(const Flags& flags, Options& options) {
  auto redirects = Masks("--redirects", flags.redirects, options.processes);
  auto tee = Masks("--tee", flags.tee, options.processes);
  const auto none = [](const std::vector<int>& masks) {
    return std::all_of(masks.begin(), masks.end(), [](int mask) { return mask == 0; });
  };
  if (none(redirects) && none(tee)) {
    if (!flags.log_dir.empty()) {
      std::fill(tee.begin(), tee.end(), 3);
    }
  } else if (flags.log_dir.empty()) {
    Wrong("--redirects and --tee need --log-dir, the folder for the files");
  }
  const auto shown = Filter(flags.local_ranks_filter, options.processes);
  for (int rank = 0; rank < options.processes; ++rank) {
    const auto i = static_cast<size_t>(rank);
    const bool visible = shown.empty() || shown.contains(rank);
    const auto output = [&](int bit) {
      const bool teed = (tee[i] & bit) != 0;
      const bool redirected = (redirects[i] & bit) != 0;
      return Output{.to_console = visible && (teed || !redirected), .to_file = teed || redirected};
    };
    options.standard_output.push_back(output(1));
    options.standard_error.push_back(output(2));
  }
}

void ReadMaster(const Flags& flags, Options& options) {
  if (flags.standalone) {
    if (options.nodes != 1) {
      Wrong(fmt::format("--standalone is for one node, --nnodes says {}", options.nodes));
    }
    options.master_addr = "127.0.0.1";
    return;
  }
  if (flags.master_port < 0 || flags.master_port > 65535) {
    Wrong(fmt::format("--master-port {} must be from 1 to 65535", flags.master_port));
  }
  options.master_addr = flags.master_addr;
  options.master_port = flags.master_port;
  if (options.nodes > 1) {
    if (options.master_addr.empty()) {
      Wrong("--master-addr is needed with --nnodes above 1: the host of node 0");
    }
    options.master_port = flags.master_port == 0 ? kDefaultPort : flags.master_port;
  } else if (options.master_addr.empty()) {
    options.master_addr = "127.0.0.1";
  }
}

std::string RandomId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

Host ThisHost() {
  Host host{.cores = UsableCores(), .gpus = 0};
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) {
    for (const auto part : Split(visible, ',')) {
      if (part.starts_with('-')) {  // CUDA ignores what follows an invalid one
        break;
      }
      ++host.gpus;
    }
    return host;
  }
  while (access(fmt::format("/dev/nvidia{}", host.gpus).c_str(), F_OK) == 0) {
    ++host.gpus;
  }
  return host;
}

Options ReadFlags(const Flags& flags, const Host& host) {
  if (flags.command.empty()) {
    Wrong("there is no program to launch: ddp-worker launch [OPTIONS] PROGRAM [ARGUMENTS]");
  }
  if (flags.command.front().starts_with('-')) {
    Wrong(fmt::format("unknown option {}; ddp-worker launch --help lists them",
                      flags.command.front()));
  }
  Options options;
  options.processes = Processes(flags.nproc_per_node, host);
  options.nodes = Nodes(flags.nnodes);
  options.node_rank = flags.node_rank;
  if (options.node_rank < 0 || options.node_rank >= options.nodes) {
    Wrong(fmt::format("--node-rank {} must be from 0 to {}: --nnodes is {}", options.node_rank,
                      options.nodes - 1, options.nodes));
  }
  ReadMaster(flags, options);
  options.run_id = flags.rdzv_id.empty() && options.nodes == 1 ? RandomId() : flags.rdzv_id;
  if (flags.max_restarts < 0) {
    Wrong(fmt::format("--max-restarts {} must not be negative", flags.max_restarts));
  }
  options.max_restarts = flags.max_restarts;
  options.log_dir = flags.log_dir;
  ReadOutputs(flags, options);
  if (flags.grace_seconds < 0) {
    Wrong(fmt::format("--grace-seconds {} must not be negative", flags.grace_seconds));
  }
  options.grace = std::chrono::seconds(flags.grace_seconds);
  options.command = flags.command;
  if (std::filesystem::path(options.command.front()).extension() == ".py") {
    options.command.insert(options.command.begin(), {"python3", "-u"});
  }
  return options;
}

}  // namespace ddp::rt::launch
