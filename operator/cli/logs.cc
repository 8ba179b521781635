// `logs`: what the ranks of a job say, of one attempt or, followed, from attempt to attempt.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <thread>

#include "operator/api/names.h"
#include "operator/api/validate.h"
#include "operator/base/backoff.h"
#include "operator/cli/commands.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/log_lines.h"
#include "operator/cli/status_view.h"
#include "operator/ddpjob/observed.h"

namespace ddp::cli {
namespace {

using json::Json;

constexpr size_t kMaxFollowed = 64;  // ranks at once, each a connection
// An API server that restarts, or a node that is away for a moment, is waited for.
constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kShortestPause{100};
constexpr std::chrono::seconds kLongestPause{2};
constexpr std::chrono::seconds kForever{std::chrono::hours(24 * 365)};

struct LogSource {
  int replica = 0;
  std::string pod;
  std::string container;
};

// The replicas that hold the wanted ranks.
base::Result<std::set<int>, CliError> Replicas(const LogsOptions& options, const api::Spec& spec) {
  const bool all = options.ranks == "all";
  const auto wanted = api::RankSet::Parse(all ? "" : options.ranks);
  std::set<int> replicas;
  int found = 0;
  for (int rank = 0; rank < spec.ranks(); ++rank) {
    if (all || (wanted && wanted->Contains(rank))) {
      replicas.insert(rank / spec.processes_per_replica);
      ++found;
    }
  }
  if (!all && (!wanted || wanted->empty() || found != wanted->size())) {
    return CliError{kExitUsage,
                    {fmt::format("--rank {}: the job has ranks 0 to {}; give one, a set "
                                 "such as 0-3,7, or all",
                                 options.ranks, spec.ranks() - 1)}};
  }
  return replicas;
}

void WriteOut(std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(STDOUT_FILENO, text.data(), text.size());
    if (size < 0 && errno != EINTR) {
      return;
    }
    text.remove_prefix(size > 0 ? static_cast<size_t>(size) : 0);
  }
}

// Whether an error may be over in a moment.
bool MayPass(const kube::ApiError& error) {
  constexpr int kServersOwnFault = 500;
  return error.http == 0 || error.http >= kServersOwnFault ||
         error.code == base::ErrorCode::kTooManyRequests;
}

// Counts tries in a row, and pauses between them.
class Patience {
 public:
  void Renew() { *this = Patience(); }
  bool over() const { return std::chrono::steady_clock::now() - since_ > kPatience; }
  void Pause() {
    std::this_thread::sleep_for(base::ExponentialDelay(++tries_, kShortestPause, kLongestPause));
  }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  int tries_ = 0;
};

class LogCommand {
 public:
  LogCommand(Cluster& cluster, const LogsOptions& options) : cluster_(cluster), options_(options) {}

  int Run() {
    auto found = cluster_.Get(options_.job);
    if (!found) {
      return Report(found.error());
    }
    const auto replicas = Replicas(options_, found->job.spec);
    if (!replicas) {
      return Report(replicas.error());
    }
    replicas_ = *replicas;
    if (options_.follow && replicas_.size() > kMaxFollowed) {
      return Report(CliError{kExitUsage,
                             {fmt::format("at most {} pods can be followed at once: "
                                          "choose some with --rank",
                                          kMaxFollowed)}});
    }
    return options_.follow ? Follow(found->job) : ShowOnce(found->job);
  }

 private:
  int ShowOnce(const api::DDPJob& job) {
    auto sources = Sources(job, options_.attempt);
    if (!sources) {
      return Report(sources.error());
    }
    if (sources->empty()) {
      return NothingThere(job);
    }
    for (const LogSource& source : *sources) {
      if (const auto trouble = Stream(source)) {
        return Report(*trouble);
      }
    }
    return kExitOk;
  }

  // While a log is followed the cluster may be away for a moment.
  template <typename Ask>
  static auto Patiently(const Ask& ask) {
    Patience patience;
    auto answer = ask();
    while (!answer && answer.error().exit_code == kExitUnavailable && !patience.over()) {
      patience.Pause();
      answer = ask();
    }
    return answer;
  }
  Cluster::Result<JobObject> Wait(const std::function<bool(const api::DDPJob&)>& done) {
    return Patiently([&] { return cluster_.WaitFor(options_.job, kForever, done); });
  }

  int Follow(api::DDPJob job) {
    while (true) {
      auto running = Wait([&](const api::DDPJob& now) {
        return now.status.phase == api::Phase::kRunning || now.status.finished() ||
               (options_.attempt && now.status.attempt > *options_.attempt);
      });
      if (!running) {
        return Report(running.error());
      }
      job = running->job;
      auto sources = Patiently([&] { return Sources(job, options_.attempt); });
      if (!sources) {
        return Report(sources.error());
      }
      if (sources->empty() && job.status.finished()) {
        return NothingThere(job);
      }
      StreamAll(*sources);
      if (options_.attempt) {
        return kExitOk;
      }
      auto next = Wait([&](const api::DDPJob& now) {
        return now.status.finished() || now.status.attempt > job.status.attempt;
      });
      if (!next) {
        return Report(next.error());
      }
      fmt::print(stderr, "{}\n", Line(next->job));
      if (next->job.status.finished() && next->job.status.attempt == job.status.attempt) {
        return next->job.status.phase == api::Phase::kSucceeded ? kExitOk : kExitJobFailed;
      }
    }
  }

  // The pods to read; of the newest attempt that has any, unless one is named.
  base::Result<std::vector<LogSource>, CliError> Sources(const api::DDPJob& job,
                                                         std::optional<int> attempt) {
    const auto pods = cluster_.Pods(job);
    if (!pods) {
      return pods.error();
    }
    int newest = 0;
    for (const Json& pod : *pods) {
      if (const auto record = job::ReadPod(pod); record && replicas_.contains(record->rank)) {
        newest = std::max(newest, record->attempt);
      }
    }
    std::vector<LogSource> sources;
    for (const Json& pod : *pods) {
      const auto record = job::ReadPod(pod);
      if (record && record->attempt == attempt.value_or(newest) &&
          replicas_.contains(record->rank)) {
        const Json* worker = api::FindWorker(pod);
        sources.push_back({record->rank, record->name,
                           worker != nullptr ? json::GetString(*worker, {"name"}) : ""});
      }
    }
    std::sort(sources.begin(), sources.end(),
              [](const LogSource& a, const LogSource& b) { return a.replica < b.replica; });
    return sources;
  }

  void StreamAll(const std::vector<LogSource>& sources) {
    std::vector<std::jthread> threads;
    threads.reserve(sources.size());
    for (const LogSource& source : sources) {
      threads.emplace_back([this, &source] {
        if (const auto trouble = Stream(source)) {
          const std::lock_guard lock(mutex_);
          (void)Report(*trouble);
        }
      });
    }
  }

  // Whether more may come of a log that has ended: an API server that stops ends it too.
  bool MayGoOn(const LogSource& source) {
    static const kube::Resource pods{"", "v1", "pods", "Pod"};
    const auto pod = cluster_.client().Get(pods, cluster_.name_space(), source.pod);
    if (!pod) {
      return MayPass(pod.error());
    }
    const auto record = job::ReadPod(*pod);
    return record && !record->terminated() && !record->exit_code && !record->deletion_time;
  }

  // Until the log's end. A connection that breaks while a log is followed is made again.
  std::optional<CliError> Stream(const LogSource& source) {
    LogLines lines(replicas_.size() > 1 ? fmt::format("[{}] ", source.replica) : "",
                   options_.follow || options_.timestamps, options_.timestamps,
                   [this](std::string_view line) {
                     const std::lock_guard lock(mutex_);
                     WriteOut(line);
                   });
    kube::LogOptions wanted;
    wanted.container = source.container;
    wanted.follow = options_.follow;
    wanted.timestamps = options_.follow || options_.timestamps;
    wanted.tail_lines = options_.tail;
    for (Patience patience;;) {
      const std::string before = lines.last_time();
      const auto read = cluster_.client().ReadLog(cluster_.name_space(), source.pod, wanted, {},
                                                  [&lines](std::string_view bytes) {
                                                    lines.Feed(bytes);
                                                    return true;
                                                  });
      if (lines.last_time() != before) {
        patience.Renew();
      }
      const bool again = options_.follow && !patience.over();
      if (read && !(again && MayGoOn(source))) {
        lines.End();
        return std::nullopt;
      }
      if (!read && !(again && MayPass(read.error()))) {
        CliError error = cluster_.Explain(read.error());
        error.lines.front() = fmt::format("{}: {}", source.pod, error.lines.front());
        return error;
      }
      lines.Break();
      if (!lines.last_time().empty()) {
        wanted.since_time = lines.last_time();
        wanted.tail_lines.reset();
      }
      patience.Pause();
    }
  }

  int NothingThere(const api::DDPJob& job) {
    CliError error{kExitNoInput, {}};
    error.lines.push_back(
        options_.attempt
            ? fmt::format("no pod of attempt {} is left", *options_.attempt)
            : fmt::format("there is no pod to read; the job is {}", api::Name(job.status.phase)));
    for (const api::Failure& failure : job.status.failures) {
      if (!failure.message.empty() && (!options_.attempt || failure.attempt == *options_.attempt)) {
        error.lines.push_back(fmt::format("the last lines of rank {} in attempt {}:\n{}",
                                          failure.rank, failure.attempt,
                                          Printable(failure.message)));
        break;
      }
    }
    return Report(error);
  }

  Cluster& cluster_;
  const LogsOptions& options_;
  std::set<int> replicas_;
  std::mutex mutex_;  // of the two outputs
};

}  // namespace

int Logs(const LogsOptions& options) {
  auto cluster = Cluster::Connect(options.cluster);
  if (!cluster) {
    return Report(cluster.error());
  }
  return LogCommand(*cluster, options).Run();
}

}  // namespace ddp::cli
