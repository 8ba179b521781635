// What could be typed next: for the scripts of `completion` and for kubectl, which asks a plugin's
// helper in the same way (cobra's protocol: one candidate a line, then a directive).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operator/cli/cluster.h"

namespace ddp::cli {

// The command that the scripts call; not in the help.
inline constexpr const char* kCompleteCommand = "__complete";

struct Completion {
  std::vector<std::string> candidates;
  bool files = false;  // let the shell offer file names
  bool operator==(const Completion&) const = default;
};

// What only a cluster or a kubeconfig knows; asked where it is wanted.
struct Lookups {
  std::function<std::vector<std::string>(const ClusterOptions&)> jobs;
  std::function<std::vector<std::string>(const ClusterOptions&)> namespaces;
  std::function<std::vector<std::string>(const ClusterOptions&)> contexts;
};

// `words`: all after the program's name; the last one is what is being typed, "" for a new one.
Completion Complete(const std::vector<std::string>& words, const Lookups& lookups);

// The whole of `__complete`: prints, and never fails loudly.
int PrintCandidates(const std::vector<std::string>& words);

}  // namespace ddp::cli
