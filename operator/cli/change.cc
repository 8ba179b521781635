// `suspend`, `resume` and `restart`: asks the operator for it, by the job's spec or an annotation.
#include <fmt/format.h>

#include <chrono>

#include "operator/cli/commands.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/status_view.h"

namespace ddp::cli {
namespace {

using api::Phase;
using json::Json;

constexpr std::chrono::seconds kDefaultTimeout{600};

const char* Name(Change change) {
  switch (change) {
    case Change::kSuspend:
      return "suspend";
    case Change::kResume:
      return "resume";
    case Change::kRestart:
      return "restart";
  }
  return "";
}

// Why the job is in no state for it; empty when it is.
std::string Refuse(const api::DDPJob& job, Change change) {
  if (job.metadata.deletion_time) {
    return "it is being deleted";
  }
  if (job.status.finished()) {
    return fmt::format("it has ended ({}); create it anew to train again",
                       api::Name(job.status.phase));
  }
  if (change == Change::kRestart && job.spec.suspend) {
    return "it is suspended; resume it instead";
  }
  return "";
}

// A request counts when it is later than the job and the request before it. Times are whole
// seconds, and this machine's clock may be behind the API server's: so it is made later than both.
api::TimePoint TimeOfRequest(const api::DDPJob& job, api::TimePoint now) {
  for (const auto& earlier : {job.metadata.creation_time, job.metadata.restart_requested,
                              job.status.restart_request_time}) {
    if (earlier && now < *earlier + std::chrono::seconds(1)) {
      now = *earlier + std::chrono::seconds(1);
    }
  }
  return now;
}

Json PatchFor(Change change, const api::DDPJob& job) {
  if (change == Change::kRestart) {
    const api::TimePoint requested = TimeOfRequest(job, base::SystemClock().Now());
    return {
        {"metadata", {{"annotations", {{api::kRestartAnnotation, base::FormatTime(requested)}}}}}};
  }
  return {{"spec", {{"suspend", change == Change::kSuspend}}}};
}

bool HasCome(const api::DDPJob& job, const api::DDPJob& before, Change change) {
  switch (change) {
    case Change::kSuspend:
      return job.status.phase == Phase::kSuspended || job.status.finished();
    case Change::kResume:
      return job.status.phase == Phase::kRunning || job.status.finished();
    case Change::kRestart:
      return (job.status.attempt > before.status.attempt && job.status.phase == Phase::kRunning) ||
             job.status.finished();
  }
  return true;
}

std::string Said(const api::DDPJob& job, Change change) {
  switch (change) {
    case Change::kSuspend:
      return fmt::format("{}: its pods are asked to end; what they saved is kept",
                         job.metadata.name);
    case Change::kResume:
      return fmt::format("{}: starts again", job.metadata.name);
    case Change::kRestart:
      return fmt::format("{}: attempt {} is given up, the next begins", job.metadata.name,
                         job.status.attempt);
  }
  return "";
}

}  // namespace

int ChangeJob(Change change, const ChangeOptions& options) {
  auto cluster = Cluster::Connect(options.cluster);
  if (!cluster) {
    return Report(cluster.error());
  }
  const auto before = cluster->Get(options.job);
  if (!before) {
    return Report(before.error());
  }
  if (const std::string why = Refuse(before->job, change); !why.empty()) {
    return Report(
        CliError{kExitInvalid, {fmt::format("can't {} '{}': {}", Name(change), options.job, why)}});
  }
  const bool is_so = (change == Change::kSuspend && before->job.spec.suspend) ||
                     (change == Change::kResume && !before->job.spec.suspend);
  auto after = is_so ? before : cluster->Patch(options.job, PatchFor(change, before->job));
  if (!after) {
    return Report(after.error());
  }
  if (options.format == kText) {
    fmt::print("{}\n", is_so ? fmt::format("{}: is {} already", options.job,
                                           before->job.spec.suspend ? "suspended" : "not suspended")
                             : Said(before->job, change));
  }
  if (options.wait) {
    after = cluster->WaitFor(
        options.job, options.timeout.count() > 0 ? options.timeout : kDefaultTimeout,
        [&](const api::DDPJob& job) { return HasCome(job, before->job, change); });
    if (!after) {
      return Report(after.error());
    }
    if (options.format == kText) {
      fmt::print("{}\n", Line(after->job));
    }
  }
  if (options.format != kText) {
    Print(after->object, options.format);
  }
  return options.wait && after->job.status.phase == Phase::kFailed ? kExitJobFailed : kExitOk;
}

}  // namespace ddp::cli
