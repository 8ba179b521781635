// When what the spec gives time for is over. Each derives from timestamps in status, so it survives
// the operator. Nothing: never, or not yet started. Pure.
#pragma once

#include <optional>

#include "operator/api/types.h"

namespace ddp::job {

using api::TimePoint;

// spec.activeDeadlineSeconds after the start, or after the job was resumed.
std::optional<TimePoint> DeadlineOf(const api::Spec& spec, const api::Status& status);
// spec.ttlSecondsAfterFinished after the end.
std::optional<TimePoint> ExpiryOf(const api::Spec& spec, const api::Status& status);
// spec.startupTimeoutSeconds after the attempt's first pod had a node, unless all have started.
std::optional<TimePoint> StartupDueOf(const api::Spec& spec, const api::Status& status);

}  // namespace ddp::job
