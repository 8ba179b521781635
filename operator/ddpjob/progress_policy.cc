#include "operator/ddpjob/progress_policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp::job {

using std::chrono::seconds;

void NoteProgress(const ProgressPull& pull, api::Status& status) {
  if (!pull.ok || pull.attempt != status.attempt) {
    return;
  }
  if (!status.progress || status.progress->step != pull.progress.step) {
    status.step_time = std::chrono::floor<seconds>(pull.time);
  }
  status.progress = pull.progress;
  if (pull.checkpoint) {
    status.checkpoint = pull.checkpoint;
  }
}

Stall FindStall(const api::ProgressSpec& spec, const api::Status& status,
                const std::optional<ProgressPull>& pull, TimePoint now) {
  if (spec.stall_timeout_seconds == 0 || !status.running_time ||
      status.phase != api::Phase::kRunning) {
    return {};
  }
  const TimePoint since = std::max(*status.running_time, status.step_time.value_or(TimePoint()));
  const TimePoint due = since + seconds(spec.stall_timeout_seconds);
  Stall stall;
  if (!pull || !pull->ok || pull->attempt != status.attempt || pull->time < due) {
    stall.due = due > now ? std::optional(due) : std::nullopt;
    return stall;
  }
  stall.stalled = true;
  stall.message =
      fmt::format("no step after step {} since {} (spec.progress.stallTimeoutSeconds {})",
                  pull->progress.step, base::FormatTime(since), spec.stall_timeout_seconds);
  if (pull->progress.slowest_rank) {
    stall.message += fmt::format("; the others wait for rank {}", *pull->progress.slowest_rank);
  }
  return stall;
}

}  // namespace ddp::job
