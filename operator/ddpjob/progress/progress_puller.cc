#include "operator/ddpjob/progress/progress_puller.h"

#include <algorithm>

namespace ddp::job {
namespace {

using Steady = std::chrono::steady_clock;

constexpr const char* kPath = "/progress";

bool IsAsked(api::Phase phase) {
  return phase == api::Phase::kStarting || phase == api::Phase::kRunning;
}

}  // namespace

std::optional<PullTarget> FindPullTarget(const Observed& observed) {
  const api::DDPJob& job = observed.job;
  if (!observed.problems.empty() || job.metadata.deletion_time || !IsAsked(job.status.phase) ||
      job.spec.progress.port < api::kMinProgressPort || job.spec.pod_template.host_network()) {
    return std::nullopt;
  }
  const auto rank0 =
      std::find_if(observed.pods.begin(), observed.pods.end(), [&job](const PodRecord& pod) {
        return pod.attempt == job.status.attempt && pod.rank == 0 && pod.started &&
               !pod.exit_code && !pod.terminated() && !pod.deletion_time && !pod.ip.empty();
      });
  if (rank0 == observed.pods.end()) {
    return std::nullopt;
  }
  return PullTarget{{rank0->ip, job.spec.progress.port},
                    job.status.attempt,
                    std::chrono::seconds(job.spec.progress.stall_timeout_seconds)};
}

ProgressPuller::ProgressPuller(Callbacks callbacks, PullOptions options, const base::Clock& clock)
    : callbacks_(std::move(callbacks)), clock_(clock), schedule_(options) {}

void ProgressPuller::Watch(const std::string& key, const std::optional<PullTarget>& target) {
  const std::lock_guard lock(mutex_);
  if (schedule_.Set(key, target, Steady::now())) {
    getter_.WakeAt(Steady::now(), [this] { Pump(); });
  }
}

std::optional<ProgressPull> ProgressPuller::Latest(const std::string& key, int attempt) const {
  const std::lock_guard lock(mutex_);
  return schedule_.Told(key, attempt);
}

size_t ProgressPuller::watched() const {
  const std::lock_guard lock(mutex_);
  return schedule_.size();
}

// Sends what is due and sleeps until the next is.
void ProgressPuller::Pump() {
  const std::lock_guard lock(mutex_);
  for (PullSchedule::Pull& pull : schedule_.TakeDue(Steady::now())) {
    const HttpAddress address = pull.address;
    getter_.Get(address, kPath,
                [this, pull = std::move(pull)](const base::Result<std::string>& answer) {
                  Finish(pull, answer);
                });
  }
  if (const auto next = schedule_.NextDue()) {
    getter_.WakeAt(*next, [this] { Pump(); });
  }
}

void ProgressPuller::Finish(const PullSchedule::Pull& pull,
                            const base::Result<std::string>& answer) {
  const auto reply = answer ? ReadProgress(*answer) : base::Result<ProgressReply>(answer.error());
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    news = schedule_.Finish(pull, reply, clock_.Now(), Steady::now());
  }
  if (callbacks_.pulled) {
    callbacks_.pulled(pull.key, reply);
  }
  if (news && callbacks_.news) {
    callbacks_.news(pull.key);
  }
  Pump();
}

}  // namespace ddp::job
