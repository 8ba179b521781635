#include "operator/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

namespace ddp {
namespace {

constexpr const char* kName = "ddp-operator";
constexpr int kExitUsage = 64;  // EX_USAGE

void AddCluster(CLI::App& app, Options& options) {
  app.add_option("--kubeconfig", options.kubeconfig,
                 "Cluster to talk to (default: $KUBECONFIG, the pod's service account, or "
                 "~/.kube/config)");
  app.add_option("--namespace", options.name_space, "Look at this namespace only (default: all)");
  app.add_flag("--dry-run", options.dry_run,
               "Log what would be done, and write nothing; no lease is taken");
  app.add_flag("--selfcheck", options.self_check,
               "Look whether DDPJobs are served, the account has its rights and an operator holds "
               "the lease; say so and end");
  app.add_option("--workers", options.workers, "Jobs looked at in parallel")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

void AddJobs(CLI::App& app, Options& options, int& force_seconds) {
  app.add_flag("--network-policies", options.network_policies,
               "Give each job a NetworkPolicy: its pods reach each other, and are reached at their "
               "progress ports from the operator's namespace and those of --progress-from");
  app.add_option("--progress-from", options.progress_namespaces,
                 "A namespace from which the progress ports may be reached (monitoring); may be "
                 "repeated");
  app.add_option("--force-delete-after", force_seconds,
                 "Delete a pod by force when its node has been out of reach for so many seconds, "
                 "or is gone; 0: never")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
}

void AddElection(CLI::App& app, Options& options, int& lease_seconds) {
  app.add_flag("--leader-elect", options.leader_elect,
               "Of several operators only the one that holds the lease acts");
  app.add_option("--lease-namespace", options.lease_namespace,
                 "Where the lease is (default: the pod's or the kubeconfig's namespace)");
  app.add_option("--lease-duration", lease_seconds,
                 "Seconds after which another may take over from one that is silent")
      ->check(CLI::Range(2, 3600))
      ->capture_default_str();
}

void AddServing(CLI::App& app, Options& options, int& metrics_port, int& page_port) {
  app.add_option("--health-port", options.health_port,
                 "Port of /healthz, /readyz and, without --metrics-port, /metrics; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--metrics-port", metrics_port,
                 "Serve /metrics on this port alone (0: any free one)")
      ->check(CLI::Range(0, 65535));
  app.add_option("--metrics-tls-cert-file", options.metrics_certificate,
                 "Serve the metrics over TLS with this certificate (PEM, with its chain); read "
                 "again when it changes");
  app.add_option("--metrics-tls-key-file", options.metrics_key, "The certificate's key (PEM)");
  app.add_option("--metrics-token-file", options.metrics_token_file,
                 "Metrics want the bearer token in this file; read again every minute");
  app.add_flag("--job-metrics", options.job_metrics,
               "Serve series of each job (ddpjob_job_*), not just of all together");
  app.add_option("--status-page-port", page_port,
                 "Serve a read-only page about all jobs on this port of 127.0.0.1, to be reached "
                 "by `kubectl port-forward` (0: any free one; default: no page)")
      ->check(CLI::Range(0, 65535));
  app.add_option("--log-level", options.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
}

// What no single option can tell; empty when all is well.
std::string FindContradiction(const Options& options) {
  if (options.metrics_certificate.empty() != options.metrics_key.empty()) {
    return "--metrics-tls-cert-file and --metrics-tls-key-file must be given together";
  }
  if (!options.metrics_port &&
      (!options.metrics_certificate.empty() || !options.metrics_token_file.empty())) {
    return "TLS or a token for the metrics need a port of their own, because probes bring neither: "
           "give --metrics-port";
  }
  if (options.metrics_port && *options.metrics_port != 0 &&
      *options.metrics_port == options.health_port) {
    return "--metrics-port is --health-port too: leave it out, or choose another";
  }
  return "";
}

}  // namespace

ParsedOptions ParseOptions(std::vector<std::string> arguments) {
  Options options;
  int lease_seconds = static_cast<int>(options.lease_duration.count());
  int metrics_port = -1;
  int force_seconds = static_cast<int>(options.force_delete_after->count());
  int page_port = -1;
  CLI::App app("Runs DDPJobs: keeps one pod per rank and restarts the group when one is lost.",
               kName);
  AddCluster(app, options);
  AddJobs(app, options, force_seconds);
  AddElection(app, options, lease_seconds);
  AddServing(app, options, metrics_port, page_port);
  app.set_version_flag("--version", std::string(kName) + " " + DDP_VERSION);
  try {
    std::reverse(arguments.begin(), arguments.end());  // as the library takes them
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    const int code = app.exit(error, text, text);
    return {std::nullopt, code == 0 ? 0 : kExitUsage, text.str()};
  }
  options.lease_duration = std::chrono::seconds(lease_seconds);
  options.force_delete_after =
      force_seconds == 0 ? std::nullopt : std::optional(std::chrono::seconds(force_seconds));
  if (metrics_port >= 0) {
    options.metrics_port = metrics_port;
  }
  if (page_port >= 0) {
    options.status_page_port = page_port;
  }
  if (const std::string wrong = FindContradiction(options); !wrong.empty()) {
    return {std::nullopt, kExitUsage, wrong + "\n"};
  }
  return {std::move(options), 0, ""};
}

}  // namespace ddp
