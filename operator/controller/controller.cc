#include "operator/controller/controller.h"

#include "operator/base/log.h"

namespace ddp::controller {
namespace {

const char* const kResults[] = {"success", "requeue", "requeue_after", "error"};

Counter& ResultCounter(const std::string& name, Metrics& metrics, int result) {
  return metrics.AddCounter("controller_runtime_reconcile_total", "Reconciles, by how they ended",
                            {{"controller", name}, {"result", kResults[result]}});
}

}  // namespace

Controller::Instruments Controller::MakeInstruments(const std::string& name, Metrics& metrics) {
  const Labels labels = {{"controller", name}};
  return {
      ResultCounter(name, metrics, 0),
      ResultCounter(name, metrics, 1),
      ResultCounter(name, metrics, 2),
      ResultCounter(name, metrics, 3),
      metrics.AddCounter("controller_runtime_reconcile_errors_total", "Failed reconciles", labels),
      metrics.AddCounter("controller_runtime_reconcile_panics_total",
                         "Reconciles that threw an exception", labels),
      metrics.AddHistogram("controller_runtime_reconcile_time_seconds", "Time of a reconcile",
                           {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60}, labels),
      metrics.AddGauge("controller_runtime_active_workers", "Workers that reconcile now", labels),
      metrics.AddGauge("controller_runtime_max_concurrent_reconciles", "Workers there are",
                       labels)};
}

Controller::Controller(std::string name, WorkQueue& queue, Reconciler& reconciler, Metrics& metrics,
                       int workers)
    : name_(std::move(name)),
      queue_(queue),
      reconciler_(reconciler),
      worker_count_(workers),
      instruments_(MakeInstruments(name_, metrics)) {
  instruments_.max.Set(workers);
}

Controller::~Controller() { Stop(std::chrono::milliseconds(0)); }

void Controller::Start() {
  std::lock_guard lock(mutex_);
  running_ = worker_count_;
  for (int i = 0; i < worker_count_; ++i) {
    workers_.emplace_back([this] { Work(); });
  }
}

void Controller::Stop(std::chrono::milliseconds patience) {
  queue_.ShutDown();
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, patience, [this] { return running_ == 0; });
  lock.unlock();
  stop_.request_stop();
  workers_.clear();  // joins
}

void Controller::Work() {
  while (auto key = queue_.Get(stop_.get_token())) {
    Process(*key);
  }
  std::lock_guard lock(mutex_);
  --running_;
  ended_.notify_all();
}

void Controller::Process(const std::string& key) {
  {
    std::lock_guard lock(mutex_);
    instruments_.active.Set(++active_);
  }
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = ReconcileSafely(key);
  instruments_.time.Observe(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  Settle(key, outcome);
  queue_.Done(key);
  std::lock_guard lock(mutex_);
  instruments_.active.Set(--active_);
}

// The root of a worker's work: one object's bug must not take the operator from all the others.
Outcome Controller::ReconcileSafely(const std::string& key) {
  try {
    return reconciler_.Reconcile(key, stop_.get_token());
  } catch (const std::exception& e) {
    instruments_.panics.Increment();
    return Outcome::Failed(
        {base::ErrorCode::kInternal, std::string("unexpected exception: ") + e.what()});
  }
}

void Controller::Settle(const std::string& key, const Outcome& outcome) {
  switch (outcome.kind) {
    case Outcome::Kind::kDone:
      queue_.Forget(key);
      if (outcome.after) {
        instruments_.requeue_after.Increment();
        queue_.AddAfter(key, *outcome.after);
      } else {
        instruments_.success.Increment();
      }
      break;
    case Outcome::Kind::kConflict:
      instruments_.requeue.Increment();
      queue_.AddRateLimited(key);
      break;
    case Outcome::Kind::kFailed:
      if (stop_.stop_requested()) {
        break;
      }
      instruments_.error.Increment();
      instruments_.errors.Increment();
      base::Log(base::Level::kError, "reconcile failed",
                {{"controller", name_},
                 {"key", key},
                 {"code", Name(outcome.error.code)},
                 {"error", outcome.error.message}});
      if (outcome.after) {
        queue_.AddAfter(key, *outcome.after);
      } else {
        queue_.AddRateLimited(key);
      }
      break;
  }
}

}  // namespace ddp::controller
