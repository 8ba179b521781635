// ddp-operator: reads its options, connects the parts, runs until told to stop.
//
// Order of life: health and metrics servers, informers (a standby watches too, so that it takes
// over warm), election, workers. On SIGTERM: workers finish what they do (10 s), informers end,
// events are sent, the lease is released. A lost lease ends the program at once, with code 1:
// somebody else may act already. Being killed at any moment is safe, so no more is needed.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "operator/base/log.h"
#include "operator/base/memory.h"
#include "operator/controller/http_server.h"
#include "operator/controller/leader_elector.h"
#include "operator/controller/manager.h"
#include "operator/controller/pages.h"
#include "operator/ddpjob/job_metrics.h"
#include "operator/ddpjob/progress/progress_puller.h"
#include "operator/ddpjob/reconciler.h"
#include "operator/kube/config.h"
#include "operator/kube/read_only.h"
#include "operator/options.h"
#include "operator/page/status_page.h"
#include "operator/selfcheck.h"

namespace ddp {
namespace {

constexpr const char* kName = "ddp-operator";

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
    pthread_kill(thread_.native_handle(), SIGINT);  // wakes sigwait
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
        executor_(client_, own_writes_, metrics_, ProgressNamespaces(options, config)),
        events_(client_, metrics_, kName, identity_),
        puller_(PullCallbacks()),
        reconciler_(caches_, own_writes_, executor_, events_, metrics_,
                    {.puller = &puller_,
                     .dry_run = options_.dry_run,
                     .settings = {.network_policies = options_.network_policies,
                                  .force_delete_after = options_.force_delete_after}}),
        controller_("ddpjob", queue_, reconciler_, metrics_, options.workers),
        leading_(metrics_.AddGauge("leader_election_master_status",
                                   "1 while this one leads, or needs not to", {{"name", kName}})) {
    controller::AddProcessMetrics(metrics_);
    caches_.AddMetrics(metrics_);
    if (options_.job_metrics) {
      metrics_.AddCollector([this] { return job::JobMetrics(caches_.jobs().store()); });
    }
    manager_.Add(caches_.jobs());
    manager_.Add(caches_.pods());
    manager_.Add(caches_.services());
    manager_.Add(controller_);
    if (options.leader_elect && !options.dry_run) {
      const std::string name_space =
          options.lease_namespace.empty() ? config.default_namespace : options.lease_namespace;
      lease_ = kube::MakeLeaseClient(client_, name_space, kName);
      elector_ = std::make_unique<controller::LeaderElector>(
          *lease_, Election(identity_, options.lease_duration));
    }
  }

  int Run(const std::stop_token& stop) {
    if (auto serving = Serve(); !serving) {
      return FailWith(serving.error());
    }
    base::Log(
        base::Level::kInfo, "started",
        {{"version", DDP_VERSION},
         {"health_port", health_->port()},
         {"metrics_port", metrics_server_ != nullptr ? metrics_server_->port() : health_->port()},
         {"dry_run", options_.dry_run}});
    manager_.StartSources();
    const int code = elector_ != nullptr ? RunElected(stop) : RunWorkers(stop);
    base::Log(base::Level::kInfo, "stopped");
    return code;
  }

 private:
  // The operator pulls progress itself.
  static std::vector<std::string> ProgressNamespaces(const Options& options,
                                                     const kube::ClusterConfig& config) {
    std::vector<std::string> namespaces = options.progress_namespaces;
    namespaces.insert(namespaces.begin(), config.default_namespace);
    return namespaces;
  }

  // A server that was away for a while is tried again within half a minute, not 16 of them.
  static controller::RateLimiter Limiter() {
    controller::RateLimiter::Options options;
    options.longest = std::chrono::seconds(30);
    return controller::RateLimiter(options);
  }

  // Probes and metrics; on two ports where the metrics want one of their own.
  base::Result<base::Done> Serve() {
    controller::Pages pages;
    pages.healthy = [this] { return elector_ != nullptr ? elector_->Health() : std::string(); };
    pages.ready = [this] {
      return manager_.synced() ? std::string() : std::string("caches are not filled yet");
    };
    if (options_.metrics_port) {
      controller::Pages metrics;
      metrics.metrics = &metrics_;
      if (!options_.metrics_token_file.empty()) {
        token_ = std::make_unique<kube::TokenFile>(options_.metrics_token_file);
        metrics.token = [this] { return token_->Token(); };
      }
      auto server = controller::HttpServer::Start(MetricsServing(), controller::Serve(metrics));
      if (!server) {
        return server.error();
      }
      metrics_server_ = *std::move(server);
      AddCertificateExpiry();
    } else {
      pages.metrics = &metrics_;
    }
    auto server = controller::HttpServer::Start(
        {options_.health_port, std::nullopt, "--health-port"}, controller::Serve(pages));
    if (!server) {
      return server.error();
    }
    health_ = *std::move(server);
    return ServePage();
  }

  base::Result<base::Done> ServePage() {
    if (!options_.status_page_port) {
      return base::Done{};
    }
    auto server = controller::HttpServer::Start(
        {*options_.status_page_port, std::nullopt, "--status-page-port", true},
        page::StatusPage(caches_.jobs().store(), history_));
    if (!server) {
      return server.error();
    }
    page_ = *std::move(server);
    base::Log(base::Level::kInfo, "serving the status page",
              {{"url", fmt::format("http://127.0.0.1:{}/", page_->port())}});
    return base::Done{};
  }

  controller::HttpServer::Options MetricsServing() const {
    controller::HttpServer::Options serving{*options_.metrics_port, std::nullopt, "--metrics-port"};
    if (!options_.metrics_certificate.empty()) {
      serving.tls.emplace(
          controller::HttpServer::Tls{options_.metrics_certificate, options_.metrics_key});
    }
    return serving;
  }

  void AddCertificateExpiry() {
    if (metrics_server_->certificate_expiry()) {
      metrics_.AddGaugeFunction(
          "ddpjob_metrics_certificate_expiry_timestamp_seconds",
          "When the certificate of the metrics runs out", {}, [this] {
            return std::chrono::duration<double>(
                       metrics_server_->certificate_expiry()->time_since_epoch())
                .count();
          });
    }
  }

  job::ProgressPuller::Callbacks PullCallbacks() {
    auto& ok = metrics_.AddCounter("ddpjob_progress_pulls_total",
                                   "Times that rank 0 of a job was asked for its progress",
                                   {{"result", "ok"}});
    auto& failed = metrics_.AddCounter("ddpjob_progress_pulls_total",
                                       "Times that rank 0 of a job was asked for its progress",
                                       {{"result", "failed"}});
    return {[this](const std::string& key) { queue_.Add(key); },
            [this, &ok, &failed](const std::string& key, const auto& reply) {
              (reply ? ok : failed).Increment();
              if (reply && options_.status_page_port) {
                history_.Record(key, *reply);
              }
            }};
  }

  int RunWorkers(const std::stop_token& stop) {
    leading_.Set(1);
    auto result = manager_.Run(stop);
    leading_.Set(0);
    return result ? 0 : FailWith(result.error());
  }

  // In client-go's proportions: 15 s, 10 s, 2 s.
  static controller::LeaderElector::Options Election(const std::string& identity,
                                                     std::chrono::milliseconds lease) {
    return {.identity = identity,
            .lease_duration = lease,
            .renew_deadline = lease * 2 / 3,
            .retry_period = lease * 2 / 15};
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
  page::TrainingHistory history_;  // filled for the status page only
  job::ProgressPuller puller_;
  job::JobReconciler reconciler_;
  controller::Controller controller_;
  controller::Gauge& leading_;
  controller::Manager manager_;
  std::unique_ptr<kube::LeaseClient> lease_;
  std::unique_ptr<controller::LeaderElector> elector_;
  std::unique_ptr<kube::TokenSource> token_;
  std::unique_ptr<controller::HttpServer> metrics_server_;  // the servers ask all of the above
  std::unique_ptr<controller::HttpServer> health_;
  std::unique_ptr<controller::HttpServer> page_;
};

// Ends with 0 when nothing is amiss.
int RunSelfCheck(const Options& options, std::shared_ptr<kube::HttpTransport> transport,
                 const kube::ClusterConfig& config) {
  const auto findings =
      SelfCheck(kube::Client(std::move(transport), config.token),
                {.name_space = options.name_space,
                 .lease_namespace = options.lease_namespace.empty() ? config.default_namespace
                                                                    : options.lease_namespace,
                 .lease_name = kName});
  bool bad = false;
  for (const Finding& finding : findings) {
    const bool good = finding.problem.empty();
    fmt::print("{} {}{}{}\n", good ? "ok  " : "FAIL", finding.what, good ? "" : ": ",
               finding.problem);
    bad = bad || !good;
  }
  return bad ? 1 : 0;
}

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
  std::shared_ptr<kube::HttpTransport> shared = *std::move(transport);
  if (options.self_check) {
    return RunSelfCheck(options, std::move(shared), *config);
  }
  Operator program(options, options.dry_run ? kube::MakeReadOnly(std::move(shared)) : shared,
                   *config);
  return program.Run(stop.get_token());
}

int Main(int argc, char** argv) {
  const auto parsed = ParseOptions({argv + 1, argv + argc});
  if (!parsed.options) {
    fmt::print(parsed.exit_code == 0 ? stdout : stderr, "{}", parsed.text);
    return parsed.exit_code;
  }
  base::SetLogLevel(parsed.options->log_level);
  return Start(*parsed.options);
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  ddp::base::KeepHeapSmall();
  return ddp::Main(argc, argv);
}
