// One turn for one job: look (caches and our own writes), plan (pure), act: status first, then
// children, then events. Level-based: the key is all it is told.
//
// It also keeps the few facts about a job that live in memory only: a creation that was refused, a
// foreign service, what of the extras is there, what nodes looked like, when its status was last
// written.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "operator/controller/controller.h"
#include "operator/controller/event_recorder.h"
#include "operator/controller/informer.h"
#include "operator/ddpjob/departed_pods.h"
#include "operator/ddpjob/kube_executor.h"
#include "operator/ddpjob/own_writes.h"
#include "operator/ddpjob/progress/progress_puller.h"

namespace ddp::job {

// The three informers of the operator and what they tell: any change puts the job's key in the
// queue.
class Caches {
 public:
  // `name_space` "" for all.
  Caches(const kube::Client& client, const std::string& name_space, controller::WorkQueue& queue,
         OwnWrites& own_writes);

  // ddpjob_jobs by phase, ddpjob_pods: counted when scraped.
  void AddMetrics(controller::Metrics& metrics) const;

  controller::Informer<CachedJob>& jobs() { return *jobs_; }
  controller::Informer<CachedPod>& pods() { return *pods_; }
  controller::Informer<CachedService>& services() { return *services_; }
  const DepartedPods& departed() const { return departed_; }

 private:
  DepartedPods departed_;
  std::unique_ptr<controller::Informer<CachedJob>> jobs_;
  std::unique_ptr<controller::Informer<CachedPod>> pods_;
  std::unique_ptr<controller::Informer<CachedService>> services_;
};

class JobReconciler : public controller::Reconciler {
 public:
  struct Options {
    ProgressPuller* puller = nullptr;  // borrowed; null: nobody is asked
    bool dry_run = false;              // plans are logged, not carried out
    Settings settings = {};
  };

  // All borrowed.
  JobReconciler(Caches& caches, OwnWrites& own_writes, KubeExecutor& executor,
                controller::EventRecorder& events, controller::Metrics& metrics,
                const base::Clock& clock = base::SystemClock())
      : JobReconciler(caches, own_writes, executor, events, metrics, Options{}, clock) {}
  JobReconciler(Caches& caches, OwnWrites& own_writes, KubeExecutor& executor,
                controller::EventRecorder& events, controller::Metrics& metrics, Options options,
                const base::Clock& clock = base::SystemClock());

  controller::Outcome Reconcile(const std::string& key, const std::stop_token& stop) override;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Memory {
    std::string uid;
    std::optional<CreateFailure> create_failure;
    Time create_not_before{};
    std::optional<Time> service_foreign_until;
    std::map<Extra, ExtraView> extras;
    std::map<Extra, Time> extra_blocked_until;
    NodeLooks nodes;
    std::optional<Time> status_written;
    // Mere counts that wait to be written; what they say holds already.
    std::optional<api::Status> unwritten;
    Time unwritten_since{};
    std::vector<std::string> described;  // in a dry run: what was logged last
  };

  struct StatusTurn {
    std::optional<controller::Outcome> failed;   // the turn ends with it
    std::optional<base::Duration> postponed_by;  // mere counts wait for so long
  };

  controller::Outcome Turn(const CachedJob& cached, Memory& memory, const std::stop_token& stop);
  Observed Observe(const CachedJob& cached, Memory& memory, const std::stop_token& stop);
  void LookAtExtras(Observed& observed, Memory& memory);
  Plan MakePlanFor(Observed& observed, Memory& memory) const;
  bool HasService(const api::DDPJob& job) const;
  ServiceState LookAtService(const api::DDPJob& job, Memory& memory, const std::stop_token& stop);
  // What was written is in observed.job afterwards.
  StatusTurn WriteStatus(Observed& observed, const Plan& plan, Memory& memory,
                         const std::stop_token& stop);
  controller::Outcome Act(const Observed& observed, Plan& plan, Memory& memory,
                          std::optional<base::Duration> after, const std::stop_token& stop);
  controller::Outcome Settle(const Execution& result, Memory& memory,
                             std::optional<base::Duration> after);
  void SendEvents(const api::DDPJob& job, const std::vector<Event>& events);
  // Counts what a status that has been written tells.
  void Count(const api::Status& before, const api::Status& after);
  static controller::Outcome Describe(const Observed& observed, const Plan& plan, Memory& memory,
                                      TimePoint now);
  void ForgetJob(const std::string& key);
  Memory Recall(const std::string& key, const std::string& uid);
  void Remember(const std::string& key, Memory memory);

  Caches& caches_;
  OwnWrites& own_writes_;
  KubeExecutor& executor_;
  controller::EventRecorder& events_;
  const Options options_;
  const base::Clock& clock_;
  std::map<api::Cause, controller::Counter*> restarts_;
  std::map<api::Phase, controller::Counter*> finished_;
  controller::Histogram& time_to_running_;
  std::mutex mutex_;
  std::map<std::string, Memory> memories_;  // by key
};

}  // namespace ddp::job
