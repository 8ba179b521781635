#include "operator/ddpjob/job_metrics.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace ddp::job {
namespace {

using api::Status;
using Value = std::optional<double>;

double Seconds(api::TimePoint time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

template <typename T>
Value Number(const std::optional<T>& value) {
  return value ? Value(static_cast<double>(*value)) : std::nullopt;
}

Value Time(const std::optional<api::TimePoint>& time) {
  return time ? Value(Seconds(*time)) : std::nullopt;
}

// A family with one series a job, where the job has a value for it.
struct Row {
  const char* name;
  const char* help;
  Value (*value)(const api::DDPJob&);
};

template <typename Read>
Value OfProgress(const api::DDPJob& job, Read read) {
  return job.status.progress ? read(*job.status.progress) : std::nullopt;
}

constexpr Row kRows[] = {
    {"ddpjob_job_created_timestamp_seconds", "When the job was created",
     [](const api::DDPJob& job) { return Time(job.metadata.creation_time); }},
    {"ddpjob_job_attempt", "Incarnations of the group so far",
     [](const api::DDPJob& job) { return Value(job.status.attempt); }},
    {"ddpjob_job_replicas_desired", "Pods that the job wants",
     [](const api::DDPJob& job) { return Value(job.spec.replicas); }},
    {"ddpjob_job_replicas_ready", "Pods that are ready",
     [](const api::DDPJob& job) { return Value(job.status.replicas.ready); }},
    {"ddpjob_job_step", "Step that the training has reached",
     [](const api::DDPJob& job) {
       return OfProgress(job, [](const auto& p) { return Value(static_cast<double>(p.step)); });
     }},
    {"ddpjob_job_total_steps", "Steps that the training will take",
     [](const api::DDPJob& job) {
       return OfProgress(job, [](const auto& p) { return Number(p.total_steps); });
     }},
    {"ddpjob_job_loss", "Loss of the newest step",
     [](const api::DDPJob& job) {
       return OfProgress(job, [](const auto& p) { return Number(p.loss); });
     }},
    {"ddpjob_job_samples_per_second", "Speed of the whole group",
     [](const api::DDPJob& job) {
       return OfProgress(job, [](const auto& p) { return Number(p.samples_per_second); });
     }},
    {"ddpjob_job_last_step_timestamp_seconds", "When the newest step ended, by rank 0's clock",
     [](const api::DDPJob& job) {
       return OfProgress(job, [](const auto& p) { return Time(p.last_step_time); });
     }},
    {"ddpjob_job_checkpoint_step", "Step of the newest complete checkpoint",
     [](const api::DDPJob& job) {
       return job.status.checkpoint ? Value(static_cast<double>(job.status.checkpoint->step))
                                    : std::nullopt;
     }},
    {"ddpjob_job_checkpoint_timestamp_seconds", "When the newest complete checkpoint was written",
     [](const api::DDPJob& job) {
       return job.status.checkpoint ? Time(job.status.checkpoint->time) : std::nullopt;
     }},
};

constexpr const char* kConditions[] = {api::kConditionReady, api::kConditionProgressAvailable,
                                       api::kConditionStalled, api::kConditionTransportWarning};

constexpr api::Cause kCauses[] = {api::Cause::kApplication, api::Cause::kStall,
                                  api::Cause::kInfrastructure, api::Cause::kPreemption,
                                  api::Cause::kStartup};

}  // namespace

std::vector<controller::GaugeFamily> JobMetrics(const controller::Store<CachedJob>& jobs) {
  controller::GaugeFamily phases{"ddpjob_job_phase", "1 for the phase that the job is in", {}};
  controller::GaugeFamily restarts{"ddpjob_job_restarts", "Restarts so far, by cause", {}};
  controller::GaugeFamily conditions{"ddpjob_job_condition", "1 while the condition is true", {}};
  std::vector<controller::GaugeFamily> families;
  for (const Row& row : kRows) {
    families.push_back({row.name, row.help, {}});
  }
  jobs.ForEach([&](const CachedJob& cached) {
    const api::DDPJob& job = cached.job;
    const controller::Labels labels = {{"namespace", job.metadata.namespace_name},
                                       {"job_name", job.metadata.name}};
    const auto with = [&labels](const char* name, const char* value) {
      controller::Labels more = labels;
      more[name] = value;
      return more;
    };
    for (size_t i = 0; i < std::size(kRows); ++i) {
      if (const Value value = kRows[i].value(job)) {
        families[i].samples.push_back({labels, *value});
      }
    }
    phases.samples.push_back({with("phase", api::Name(job.status.phase)), 1});
    api::RestartCounts counts = job.status.restarts;
    for (const api::Cause cause : kCauses) {
      restarts.samples.push_back(
          {with("cause", api::Name(cause)), static_cast<double>(counts.Of(cause))});
    }
    for (const char* type : kConditions) {
      if (const api::Condition* condition = api::FindCondition(job.status, type)) {
        conditions.samples.push_back(
            {with("type", type), condition->status == api::ConditionStatus::kTrue ? 1.0 : 0.0});
      }
    }
  });
  families.push_back(std::move(phases));
  families.push_back(std::move(restarts));
  families.push_back(std::move(conditions));
  return families;
}

}  // namespace ddp::job
