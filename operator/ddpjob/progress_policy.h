// What a pull of rank 0's progress means: how far the training is, whether it stands still. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

// Takes an answer of this attempt over into status: progress, checkpoint, and step_time when the
// step is another than before.
void NoteProgress(const ProgressPull& pull, api::Status& status);

struct Stall {
  bool stalled = false;
  std::optional<TimePoint> due;  // when it would be one, if that lies ahead
  std::string message;           // of a stall, for people
  bool operator==(const Stall&) const = default;
};

// A stall is an answer that came spec.progress.stallTimeoutSeconds after the last new step, or
// after all ranks had started, and tells of no new one. A rank 0 that can't be asked is none. For a
// status that has taken `pull` over already.
Stall FindStall(const api::ProgressSpec& spec, const api::Status& status,
                const std::optional<ProgressPull>& pull, TimePoint now);

}  // namespace ddp::job
