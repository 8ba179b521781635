// ddp-operator: reads its options, connects the parts, runs until told to stop.
//
// Order of life: health server, informers (a standby watches too, so that it takes over warm),
// election, workers. On SIGTERM: workers finish what they do (10 s), informers end, events are
// sent, the lease is released. A lost lease ends the program at once, with code 1: somebody else
// may act already. Being killed at any moment is safe, so no more is needed.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "operator/base/log.h"
#include "operator/controller/health_server.h"
#include "operator/controller/leader_elector.h"
#include "operator/controller/manager.h"
#include "operator/ddpjob/reconciler.h"
#include "operator/kube/config.h"

namespace ddp {
namespace {

constexpr const char* kName = "ddp-operator";

struct Options {
  std::string kubeconfig;
  std::string name_space;
  bool leader_elect = false;
  std::string lease_namespace;
  int workers = 4;
  int health_port = 8080;
  std::string log_level = "info";
};

std::string Identity() {
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  return fmt::format("{}_{:08x}", host, std::random_device{}());
}

int FailWith(const base::Error& error) {
  base::Log(base::Level::kError, "cannot run", {{"error", error.message}});
  return 1;
}

// SIGTERM and SIGINT become a stop request; a second one ends the program at once.
class Signals {
 public:
  explicit Signals(std::stop_source& stop) {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    thread_ = std::thread([this, &stop] {
      int received = 0;
      while (sigwait(&set_, &received) == 0 && !done_) {
        if (stop.stop_requested()) {
          std::_Exit(1);
        }
        base::Log(base::Level::kInfo, "stopping", {{"signal", received}});
        stop.request_stop();
      }
    });
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    done_ = true;
    pthread_kill(thread_.native_handle(), SIGTERM);  // wakes sigwait
    thread_.join();
  }

 private:
  sigset_t set_{};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// Everything that lives as long as the program, in the order in which it must be destroyed last to
// first.
class Operator {
 public:
  Operator(const Options& options, std::shared_ptr<kube::HttpTransport> transport,
           const kube::ClusterConfig& config)
      : options_(options),
        identity_(Identity()),
        requests_(metrics_),
        client_(std::move(transport), config.token,
                [this](std::string_view method, std::string_view code) {
                  requests_.Count(method, code);
                }),
        queue_("ddpjob", metrics_, base::SystemClock(), Limiter()),
        caches_(client_, options.name_space, queue_, own_writes_),
        executor_(client_, own_writes_, metrics_),
        events_(client_, metrics_, kName, identity_),
        reconciler_(caches_, own_writes_, executor_, events_, metrics_),
        controller_("ddpjob", queue_, reconciler_, metrics_, options.workers),
        leading_(metrics_.AddGauge("leader_election_master_status",
                                   "1 while this one leads, or needs not to", {{"name", kName}})) {
    controller::AddProcessMetrics(metrics_);
    caches_.AddMetrics(metrics_);
    manager_.Add(caches_.jobs());
    manager_.Add(caches_.pods());
    manager_.Add(caches_.services());
    manager_.Add(controller_);
    if (options.leader_elect) {
      const std::string name_space =
          options.lease_namespace.empty() ? config.default_namespace : options.lease_namespace;
      lease_ = kube::MakeLeaseClient(client_, name_space, kName);
      elector_ = std::make_unique<controller::LeaderElector>(
          *lease_, controller::LeaderElector::Options{.identity = identity_});
    }
  }

  int Run(const std::stop_token& stop) {
    auto health = controller::HealthServer::Start(
        options_.health_port, metrics_,
        [this] { return elector_ != nullptr ? elector_->Health() : std::string(); },
        [this] { return manager_.synced() ? "" : std::string("caches are not filled yet"); });
    if (!health) {
      return FailWith(health.error());
    }
    base::Log(base::Level::kInfo, "started",
              {{"version", DDP_VERSION}, {"health_port", (*health)->port()}});
    manager_.StartSources();
    const int code = elector_ != nullptr ? RunElected(stop) : RunWorkers(stop);
    base::Log(base::Level::kInfo, "stopped");
    return code;
  }

 private:
  // A server that was away for a while is tried again within half a minute, not 16 of them.
  static controller::RateLimiter Limiter() {
    controller::RateLimiter::Options options;
    options.longest = std::chrono::seconds(30);
    return controller::RateLimiter(options);
  }

  int RunWorkers(const std::stop_token& stop) {
    leading_.Set(1);
    auto result = manager_.Run(stop);
    leading_.Set(0);
    return result ? 0 : FailWith(result.error());
  }

  int RunElected(const std::stop_token& stop) {
    if (!elector_->Acquire(stop)) {
      return RunWorkers(stop);  // stopped already: ends the sources
    }
    std::jthread holder([this](const std::stop_token& done) {
      if (!elector_->Hold(done)) {
        std::_Exit(1);
      }
    });
    const int code = RunWorkers(stop);
    // Renewed until no worker runs any more: nobody else may act before that.
    holder.request_stop();
    holder.join();
    elector_->Release();
    return code;
  }

  const Options options_;
  const std::string identity_;
  controller::Metrics metrics_;
  controller::RequestCounter requests_;
  kube::Client client_;
  job::OwnWrites own_writes_;
  controller::WorkQueue queue_;
  job::Caches caches_;
  job::KubeExecutor executor_;
  controller::EventRecorder events_;
  job::JobReconciler reconciler_;
  controller::Controller controller_;
  controller::Gauge& leading_;
  controller::Manager manager_;
  std::unique_ptr<kube::LeaseClient> lease_;
  std::unique_ptr<controller::LeaderElector> elector_;
};

int Start(const Options& options) {
  auto config = kube::LoadConfig(options.kubeconfig, std::getenv);
  if (!config) {
    return FailWith(config.error());
  }
  std::stop_source stop;
  // Before any thread is started: all of them inherit the blocked signals.
  const Signals signals(stop);
  auto transport =
      kube::MakeHttpTransport(config->ToTransportOptions(fmt::format("{}/{}", kName, DDP_VERSION)));
  if (!transport) {
    return FailWith(transport.error());
  }
  Operator program(options, *std::move(transport), *config);
  return program.Run(stop.get_token());
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Runs DDPJobs: keeps one pod per rank and restarts the group when one is lost.",
               kName);
  app.add_option("--kubeconfig", options.kubeconfig,
                 "Cluster to talk to (default: $KUBECONFIG, the pod's service account, or "
                 "~/.kube/config)");
  app.add_option("--namespace", options.name_space, "Look at this namespace only (default: all)");
  app.add_flag("--leader-elect", options.leader_elect,
               "Of several operators only the one that holds the lease acts");
  app.add_option("--lease-namespace", options.lease_namespace,
                 "Where the lease is (default: the pod's or the kubeconfig's namespace)");
  app.add_option("--workers", options.workers, "Jobs looked at in parallel")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--health-port", options.health_port,
                 "Port of /metrics, /healthz and /readyz; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--log-level", options.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  app.set_version_flag("--version", std::string(kName) + " " + DDP_VERSION);
  CLI11_PARSE(app, argc, argv);
  base::SetLogLevel(options.log_level);
  return Start(options);
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) { return ddp::Main(argc, argv); }
