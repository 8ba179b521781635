// The command line of ddp-operator → checked values. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

struct Options {
  std::string kubeconfig;
  std::string name_space;  // "": all
  bool dry_run = false;
  bool self_check = false;
  bool leader_elect = false;
  std::string lease_namespace;
  std::chrono::seconds lease_duration{15};
  int workers = 4;
  bool network_policies = false;
  std::vector<std::string> progress_namespaces;
  std::optional<std::chrono::seconds> force_delete_after{600};  // nothing: never
  int health_port = 8080;
  std::optional<int> metrics_port;  // nothing: the health port serves them too
  std::string metrics_certificate;
  std::string metrics_key;
  std::string metrics_token_file;
  bool job_metrics = false;
  std::optional<int> status_page_port;  // nothing: no page
  std::string log_level = "info";
};

// The options, or what to print and how to end instead: help, the version, or what is wrong.
struct ParsedOptions {
  std::optional<Options> options;
  int exit_code = 0;
  std::string text;
};

// `arguments` without the program's own name.
ParsedOptions ParseOptions(std::vector<std::string> arguments);

}  // namespace ddp
