#include "operator/ddpjob/reconciler.h"

#include <algorithm>

#include "operator/base/log.h"
#include "operator/ddpjob/conditions.h"
#include "operator/ddpjob/describe_plan.h"

namespace ddp::job {
namespace {

using controller::Outcome;
using std::chrono::seconds;

// design.md: phase changes at once, mere counts at most once a second.
constexpr seconds kCountsPeriod{1};
// They come in swarms, and often just before a phase change that is written with them.
constexpr std::chrono::milliseconds kCountsDelay{500};
// Up to so many pods are made before the first status is written, which then tells of all of them.
constexpr size_t kMostPodsBeforeStatus = 32;
// A mistake of ours, which only an upgrade can mend.
constexpr seconds kLongBackoff{60};
constexpr base::Duration kAtOnce{1};
const json::Names kNobodyReads = {"managedFields"};
// Three quarters of a pod's text; ReadCachedPod looks at none of it.
const json::Names kNobodyReadsOfPods = {
    "managedFields", "env",       "volumes",       "volumeMounts",   "tolerations",
    "affinity",      "resources", "livenessProbe", "readinessProbe", "startupProbe"};
constexpr seconds kDryRunPeriod{10};

template <typename T>
std::unique_ptr<controller::Informer<T>> MakeInformer(
    const kube::Client& client, const kube::Resource& resource, const std::string& name_space,
    const kube::Selection& selection, const json::Names& leave_out,
    typename controller::Informer<T>::Parse parse, typename controller::Store<T>::Grouping grouping,
    typename controller::Informer<T>::Handler handler) {
  return std::make_unique<controller::Informer<T>>(
      resource.plural, kube::MakeWatchSource(client, resource, name_space, selection, leave_out),
      std::move(parse), std::move(grouping), std::move(handler));
}

void Sooner(std::optional<base::Duration>& after, base::Duration other) {
  after = after ? std::min(*after, other) : other;
}

// A job that was never looked at before: its status says nothing that could be lost, and the pods
// of attempt 1 can be only its first. Their creation then needs to wait for nothing, and the first
// status that is written tells of them already.
bool MayActFirst(const Observed& observed, const Plan& plan) {
  return observed.job.status == api::Status{} && observed.pods.empty() &&
         plan.status.attempt == 1 && !plan.status.finished() && !observed.create_failure &&
         !plan.actions.empty() &&
         std::all_of(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
           const auto* pods = std::get_if<CreatePods>(&action);
           return std::holds_alternative<CreateService>(action) ||
                  (pods != nullptr && pods->ranks.size() <= kMostPodsBeforeStatus);
         });
}

Outcome FromError(const kube::ApiError& error) {
  switch (error.code) {
    case base::ErrorCode::kConflict:
      return Outcome::Conflict();
    case base::ErrorCode::kNotFound:  // the job is gone: its own event is on the way
    case base::ErrorCode::kCancelled:
      return Outcome::Done();
    case base::ErrorCode::kInvalid:
      return Outcome::Failed(error.ToError(), kLongBackoff);
    default:
      if (kube::IsNamespaceTerminating(error)) {
        return Outcome::Done();
      }
      return error.retry_after ? Outcome::Failed(error.ToError(), *error.retry_after)
                               : Outcome::Failed(error.ToError());
  }
}

}  // namespace

Caches::Caches(const kube::Client& client, const std::string& name_space,
               controller::WorkQueue& queue, OwnWrites& own_writes) {
  jobs_ = MakeInformer<CachedJob>(
      client, JobResource(), name_space, {}, kNobodyReads, ReadJob, nullptr,
      [this, &queue, &own_writes](const auto& before, const auto& now) {
        const api::Metadata& meta = (now != nullptr ? now : before)->job.metadata;
        if (now == nullptr) {
          own_writes.Forget(meta.uid);
          departed_.Forget(meta.uid);
        }
        queue.Add(KeyOf(meta.namespace_name, meta.name));
      });
  pods_ = MakeInformer<CachedPod>(
      client, PodResource(), name_space, ChildSelection(), kNobodyReadsOfPods, ReadCachedPod,
      [](const CachedPod& pod) { return pod.owner.uid; },
      [this, &queue, &own_writes](const auto& before, const auto& now) {
        const CachedPod& pod = now != nullptr ? *now : *before;
        const std::string job = KeyOf(pod.name_space, pod.owner.name);
        if (now == nullptr && jobs_->store().Get(job).uid == pod.owner.uid) {
          departed_.Saw(pod.owner.uid, pod.record);  // of jobs that are gone nobody asks
        }
        own_writes.SawPod(pod.owner.uid, pod.record.name, pod.record.uid,
                          now == nullptr || now->record.deletion_time.has_value());
        queue.Add(job);
      });
  services_ = MakeInformer<CachedService>(
      client, ServiceResource(), name_space, ChildSelection(), kNobodyReads, ReadCachedService,
      [](const CachedService& service) { return service.owner.uid; },
      [&queue, &own_writes](const auto& before, const auto& now) {
        const CachedService& service = now != nullptr ? *now : *before;
        own_writes.SawService(service.owner.uid, service.uid);
        queue.Add(KeyOf(service.name_space, service.owner.name));
      });
}

void Caches::AddMetrics(controller::Metrics& metrics) const {
  for (const api::Phase phase :
       {api::Phase::kPending, api::Phase::kStarting, api::Phase::kRunning, api::Phase::kRestarting,
        api::Phase::kSuspended, api::Phase::kSucceeded, api::Phase::kFailed}) {
    metrics.AddGaugeFunction(
        "ddpjob_jobs", "Jobs by phase", {{"phase", api::Name(phase)}}, [this, phase] {
          return static_cast<double>(jobs_->store().CountIf(
              [phase](const CachedJob& cached) { return cached.job.status.phase == phase; }));
        });
  }
  metrics.AddGaugeFunction("ddpjob_pods", "Pods of all jobs", {},
                           [this] { return static_cast<double>(pods_->store().size()); });
}

JobReconciler::JobReconciler(Caches& caches, OwnWrites& own_writes, KubeExecutor& executor,
                             controller::EventRecorder& events, controller::Metrics& metrics,
                             Options options, const base::Clock& clock)
    : caches_(caches),
      own_writes_(own_writes),
      executor_(executor),
      events_(events),
      options_(options),
      clock_(clock),
      time_to_running_(metrics.AddHistogram(
          "ddpjob_time_to_running_seconds",
          "From a job's creation or resumption until every rank of its first attempt runs",
          {1, 2, 5, 10, 30, 60, 120, 300, 600, 1800})) {
  for (const api::Phase phase : {api::Phase::kSucceeded, api::Phase::kFailed}) {
    finished_[phase] = &metrics.AddCounter("ddpjob_jobs_finished_total", "Jobs that have ended",
                                           {{"result", api::Name(phase)}});
  }
  for (const api::Cause cause :
       {api::Cause::kApplication, api::Cause::kStall, api::Cause::kInfrastructure,
        api::Cause::kPreemption, api::Cause::kStartup}) {
    restarts_[cause] = &metrics.AddCounter("ddpjob_restarts_total", "Restarts of a whole group",
                                           {{"cause", api::Name(cause)}});
  }
}

Outcome JobReconciler::Reconcile(const std::string& key, const std::stop_token& stop) {
  const auto entry = caches_.jobs().store().Get(key);
  if (entry.object == nullptr) {
    ForgetJob(key);
    return Outcome::Done();
  }
  Memory memory = Recall(key, entry.uid);
  Outcome outcome = Turn(*entry.object, memory, stop);
  Remember(key, std::move(memory));
  return outcome;
}

Outcome JobReconciler::Turn(const CachedJob& cached, Memory& memory, const std::stop_token& stop) {
  Observed observed = Observe(cached, memory, stop);
  Plan plan = MakePlanFor(observed, memory);
  if (options_.dry_run) {
    return Describe(observed, plan, memory, clock_.Now());
  }
  if (MayActFirst(observed, plan)) {
    // The status comes with the next turn: the pods of other jobs that wait go before it.
    return Settle(executor_.Execute(observed, plan.actions, stop), memory, kAtOnce);
  }
  StatusTurn turn = WriteStatus(observed, plan, memory, stop);
  Outcome outcome =
      turn.failed ? *std::move(turn.failed) : Act(observed, plan, memory, turn.postponed_by, stop);
  if (options_.puller != nullptr) {
    options_.puller->Watch(KeyOf(cached.job.metadata.namespace_name, cached.job.metadata.name),
                           FindPullTarget(observed));
  }
  return outcome;
}

Plan JobReconciler::MakePlanFor(Observed& observed, Memory& memory) const {
  const api::Status stored = observed.job.status;
  if (memory.unwritten && !AddUnwritten(*memory.unwritten, observed.job.status)) {
    memory.unwritten.reset();
  }
  Plan plan = MakePlan(observed, clock_.Now());
  plan.urgency = UrgencyOf(stored, plan.status);
  return plan;
}

Observed JobReconciler::Observe(const CachedJob& cached, Memory& memory,
                                const std::stop_token& stop) {
  Observed observed;
  observed.settings = options_.settings;
  api::DDPJob storage;
  observed.job = own_writes_.Newest(cached.job, storage);
  observed.problems = cached.problems;
  const std::string& uid = cached.job.metadata.uid;
  {
    // A pod whose event comes now must not be missing in all three, or it counts as lost.
    const auto hold = caches_.pods().Hold();
    for (const auto& pod : caches_.pods().store().ByGroup(uid)) {
      observed.pods.push_back(pod.object->record);
    }
    observed.departed = caches_.departed().Of(uid);
    own_writes_.Overlay(uid, observed.pods);
  }
  observed.service = LookAtService(observed.job, memory, stop);
  LookAtExtras(observed, memory);
  observed.create_failure = memory.create_failure;
  if (options_.puller != nullptr) {
    observed.progress =
        options_.puller->Latest(KeyOf(cached.job.metadata.namespace_name, cached.job.metadata.name),
                                observed.job.status.attempt);
  }
  return observed;
}

// A dry run: says what is new about the plan, and looks again later.
Outcome JobReconciler::Describe(const Observed& observed, const Plan& plan, Memory& memory,
                                TimePoint now) {
  std::vector<std::string> sentences = DescribePlan(observed, plan);
  if (sentences != memory.described) {
    for (const std::string& sentence : sentences) {
      base::Log(base::Level::kInfo, "dry run: would",
                {{"namespace", observed.job.metadata.namespace_name},
                 {"name", observed.job.metadata.name},
                 {"action", sentence}});
    }
    memory.described = std::move(sentences);
  }
  return plan.wake_up ? Outcome::After(std::max<base::Duration>(kDryRunPeriod, *plan.wake_up - now))
                      : Outcome::Done();
}

// What stood in the way is tried again after a while; what a node looked like is soon out of date.
void JobReconciler::LookAtExtras(Observed& observed, Memory& memory) {
  std::erase_if(memory.extra_blocked_until, [&](const auto& blocked) {
    const bool over = clock_.Steady() >= blocked.second;
    if (over) {
      memory.extras.erase(blocked.first);
    }
    return over;
  });
  std::erase_if(memory.nodes, [&](const auto& look) {
    return clock_.Now() - look.second.time > 2 * api::kProvisionalWindow;
  });
  observed.extras = memory.extras;
  observed.nodes = memory.nodes;
}

bool JobReconciler::HasService(const api::DDPJob& job) const {
  const std::string& uid = job.metadata.uid;
  const auto hold = caches_.services().Hold();
  const auto services = caches_.services().store().ByGroup(uid);
  return own_writes_.HasService(uid) ||
         std::any_of(services.begin(), services.end(), [&](const auto& service) {
           return service.object->name == job.metadata.name;
         });
}

// Foreign services are in no cache (they lack our labels): once met, they are asked for by name now
// and then.
ServiceState JobReconciler::LookAtService(const api::DDPJob& job, Memory& memory,
                                          const std::stop_token& stop) {
  if (HasService(job)) {
    memory.service_foreign_until.reset();
    return ServiceState::kOurs;
  }
  if (!memory.service_foreign_until) {
    return ServiceState::kMissing;
  }
  if (clock_.Steady() >= *memory.service_foreign_until) {
    if (!executor_.ForeignServiceExists(job, stop)) {
      memory.service_foreign_until.reset();
      return ServiceState::kMissing;
    }
    memory.service_foreign_until = clock_.Steady() + api::kBlockedRetry;
  }
  return ServiceState::kForeign;
}

JobReconciler::StatusTurn JobReconciler::WriteStatus(Observed& observed, const Plan& plan,
                                                     Memory& memory, const std::stop_token& stop) {
  if (plan.urgency == Urgency::kNone) {
    memory.unwritten.reset();
    return {};
  }
  const Time now = clock_.Steady();
  if (plan.urgency == Urgency::kCounts && plan.events.empty()) {
    memory.unwritten_since = memory.unwritten ? memory.unwritten_since : now;
    const Time due = std::max(memory.unwritten_since + kCountsDelay,
                              memory.status_written.value_or(Time::min()) + kCountsPeriod);
    if (now < due) {
      memory.unwritten = plan.status;
      return {std::nullopt, std::chrono::ceil<base::Duration>(due - now)};
    }
  }
  auto written = executor_.WriteStatus(observed.job, plan.status, stop);
  if (!written) {
    return {FromError(written.error()), std::nullopt};
  }
  memory.status_written = now;
  memory.unwritten.reset();
  Count(observed.job.status, plan.status);
  observed.job.status = plan.status;
  return {};
}

Outcome JobReconciler::Act(const Observed& observed, Plan& plan, Memory& memory,
                           std::optional<base::Duration> after, const std::stop_token& stop) {
  const Time now = clock_.Steady();
  if (plan.wake_up) {
    Sooner(after, std::max(kAtOnce, *plan.wake_up - clock_.Now()));
  }
  // A creation that failed for now is not repeated by whatever event comes along.
  if (now < memory.create_not_before) {
    std::erase_if(plan.actions,
                  [](const Action& action) { return std::holds_alternative<CreatePods>(action); });
    Sooner(after, std::chrono::ceil<base::Duration>(memory.create_not_before - now));
  }
  const Execution result = executor_.Execute(observed, plan.actions, stop);
  SendEvents(observed.job, plan.events);
  return Settle(result, memory, after);
}

// What the outcome of the actions means for the next turn.
Outcome JobReconciler::Settle(const Execution& result, Memory& memory,
                              std::optional<base::Duration> after) {
  const Time now = clock_.Steady();
  bool news = false;  // for the plan, of which no watch will tell
  for (const auto& [extra, view] : result.extras) {
    memory.extras[extra] = view;
    if (view.state != ExtraView::State::kThere) {
      memory.extra_blocked_until[extra] = now + api::kBlockedRetry;
      news = true;
    }
  }
  for (const auto& [name, look] : result.nodes) {
    memory.nodes[name] = look;
    news = true;
  }
  if (result.error) {
    return FromError(*result.error);
  }
  if (result.service_taken) {
    memory.service_foreign_until = now + api::kBlockedRetry;
    return Outcome::After(kAtOnce);  // to say so in the status
  }
  if (result.create_failure) {
    memory.create_failure = result.create_failure;
    if (result.create_failure->kind == CreateFailure::Kind::kTransient) {
      memory.create_not_before =
          now + std::max(result.retry_after.value_or(seconds(0)), api::kBlockedRetry);
    }
    return Outcome::After(kAtOnce);
  }
  if (news) {
    Sooner(after, kAtOnce);
  }
  if (result.created_pods) {
    memory.create_failure.reset();
    memory.create_not_before = {};
    // The attempt may be complete now. The watch will tell of the pods, but need not be waited for:
    // the sooner status knows, the sooner a vanished pod is a lost one.
    Sooner(after, kAtOnce);
  }
  return after ? Outcome::After(*after) : Outcome::Done();
}

void JobReconciler::SendEvents(const api::DDPJob& job, const std::vector<Event>& events) {
  const controller::ObjectReference regarding{api::kApiVersion, api::kKind,
                                              job.metadata.namespace_name, job.metadata.name,
                                              job.metadata.uid};
  for (const Event& event : events) {
    events_.Record({regarding, event.warning, event.reason, "Reconcile", event.message});
    base::Log(base::Level::kInfo, "job event",
              {{"namespace", job.metadata.namespace_name},
               {"name", job.metadata.name},
               {"attempt", job.status.attempt},
               {"reason", event.reason},
               {"message", event.message}});
  }
}

void JobReconciler::Count(const api::Status& before, const api::Status& after) {
  api::RestartCounts was = before.restarts;
  api::RestartCounts is = after.restarts;
  for (const auto& [cause, counter] : restarts_) {
    const int more = is.Of(cause) - was.Of(cause);
    if (more > 0) {
      counter->Increment(more);
    }
  }
  if (after.finished() && !before.finished()) {
    finished_.at(after.phase)->Increment();
  }
  const bool first_attempt = after.start_time && (after.failures.empty() ||
                                                  after.failures.front().time < *after.start_time);
  if (after.running_time && !before.running_time && first_attempt) {
    time_to_running_.Observe(
        std::chrono::duration<double>(*after.running_time - *after.start_time).count());
  }
}

void JobReconciler::ForgetJob(const std::string& key) {
  if (options_.puller != nullptr) {
    options_.puller->Watch(key, std::nullopt);
  }
  std::lock_guard lock(mutex_);
  const auto it = memories_.find(key);
  if (it != memories_.end()) {
    own_writes_.Forget(it->second.uid);  // again: answers may have come in after its last event
    memories_.erase(it);
  }
}

JobReconciler::Memory JobReconciler::Recall(const std::string& key, const std::string& uid) {
  std::lock_guard lock(mutex_);
  const auto it = memories_.find(key);
  if (it != memories_.end() && it->second.uid == uid) {
    return it->second;
  }
  Memory fresh;
  fresh.uid = uid;
  return fresh;
}

void JobReconciler::Remember(const std::string& key, Memory memory) {
  std::lock_guard lock(mutex_);
  memories_[key] = std::move(memory);
}

}  // namespace ddp::job
