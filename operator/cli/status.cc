// `status`: how a job in a cluster is, now or once it has come somewhere.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "operator/cli/commands.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/status_view.h"

namespace ddp::cli {
namespace {

using api::Phase;

constexpr size_t kNoTerminal = 4'096;  // columns: whoever reads a pipe wants all of it
constexpr std::chrono::seconds kForever{std::chrono::hours(24 * 365)};

size_t Columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return known ? size.ws_col : kNoTerminal;
}

StatusView LookAround(Cluster& cluster, const JobObject& found) {
  StatusView view;
  view.job = found.job;
  if (const auto pods = cluster.Pods(found.job)) {
    for (const json::Json& pod : *pods) {
      if (auto record = job::ReadPod(pod)) {
        view.pods.push_back(*std::move(record));
      }
    }
  } else {
    view.notes.push_back("its pods can't be listed: " + pods.error().lines.front());
  }
  if (const auto events = cluster.Events(found.job)) {
    for (const json::Json& event : *events) {
      view.events.push_back(ReadEvent(event));
    }
  } else {
    view.notes.push_back("its events can't be listed: " + events.error().lines.front());
  }
  return view;
}

// Whether waiting for `wanted` ("": the end) is over.
bool HasCome(const api::DDPJob& job, const std::string& wanted) {
  return job.status.finished() || (!wanted.empty() && wanted == api::Name(job.status.phase));
}

int ExitCode(const api::DDPJob& job, const std::string& wanted) {
  if (wanted.empty()) {
    return job.status.phase == Phase::kSucceeded ? kExitOk : kExitJobFailed;
  }
  // A job that has succeeded has been running, whether or not anybody saw it.
  const bool came = wanted == api::Name(job.status.phase) ||
                    (wanted == api::Name(Phase::kRunning) && job.status.phase == Phase::kSucceeded);
  return came ? kExitOk : kExitJobFailed;
}

Cluster::Result<JobObject> Wait(Cluster& cluster, const StatusOptions& options) {
  const bool talks = isatty(STDERR_FILENO) == 1 || options.format == kText;
  std::string last;
  return cluster.WaitFor(options.job, options.timeout.count() > 0 ? options.timeout : kForever,
                         [&](const api::DDPJob& job) {
                           const std::string line = Line(job);
                           if (talks && line != last) {
                             fmt::print(stderr, "{}\n", line);
                             last = line;
                           }
                           return HasCome(job, *options.wait);
                         });
}

}  // namespace

int Status(const StatusOptions& options) {
  auto cluster = Cluster::Connect(options.cluster);
  if (!cluster) {
    return Report(cluster.error());
  }
  const auto found = options.wait ? Wait(*cluster, options) : cluster->Get(options.job);
  if (!found) {
    return Report(found.error());
  }
  if (options.format != kText) {
    Print(found->object, options.format);
  } else {
    fmt::print("{}", Describe(LookAround(*cluster, *found), base::SystemClock().Now(), Columns()));
  }
  return options.wait ? ExitCode(found->job, *options.wait) : kExitOk;
}

}  // namespace ddp::cli
