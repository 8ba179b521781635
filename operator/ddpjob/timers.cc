#include "operator/ddpjob/timers.h"

namespace ddp::job {
namespace {

std::optional<TimePoint> After(const std::optional<TimePoint>& start, std::optional<int> seconds) {
  return start && seconds ? std::optional(*start + std::chrono::seconds(*seconds)) : std::nullopt;
}

}  // namespace

std::optional<TimePoint> DeadlineOf(const api::Spec& spec, const api::Status& status) {
  return status.finished() ? std::nullopt : After(status.start_time, spec.active_deadline_seconds);
}

std::optional<TimePoint> ExpiryOf(const api::Spec& spec, const api::Status& status) {
  return status.finished() ? After(status.completion_time, spec.ttl_seconds_after_finished)
                           : std::nullopt;
}

std::optional<TimePoint> StartupDueOf(const api::Spec& spec, const api::Status& status) {
  return status.running_time || spec.startup_timeout_seconds == 0
             ? std::nullopt
             : After(status.bound_time, spec.startup_timeout_seconds);
}

}  // namespace ddp::job
