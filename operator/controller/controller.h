// Takes keys from a work queue and reconciles them, on a number of threads, until stopped. Knows
// nothing of what a key stands for. Metrics under controller-runtime's names, so that dashboards
// for other operators show this one too.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "operator/base/result.h"
#include "operator/controller/work_queue.h"

namespace ddp::controller {

// What a reconcile came to.
struct Outcome {
  enum class Kind {
    kDone,      // until something changes, or for `after`
    kConflict,  // somebody wrote in between: again, quietly
    kFailed,    // again after a backoff; logged and counted
  };
  Kind kind = Kind::kDone;
  std::optional<base::Duration> after;
  base::Error error;

  static Outcome Done() { return {}; }
  static Outcome After(base::Duration after) { return {Kind::kDone, after, {}}; }
  static Outcome Conflict() { return {Kind::kConflict, std::nullopt, {}}; }
  static Outcome Failed(base::Error error, std::optional<base::Duration> after = std::nullopt) {
    return {Kind::kFailed, after, std::move(error)};
  }
};

class Reconciler {
 public:
  Reconciler() = default;
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;
  virtual ~Reconciler() = default;
  // Level-based: looks at how things are, not at what changed. Never called for the same key on two
  // threads at once. `stop`: give up soon.
  virtual Outcome Reconcile(const std::string& key, const std::stop_token& stop) = 0;
};

class Controller {
 public:
  // All borrowed; they outlive the controller.
  Controller(std::string name, WorkQueue& queue, Reconciler& reconciler, Metrics& metrics,
             int workers);
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;
  ~Controller();  // as Stop with no patience

  void Start();
  // Shuts the queue; workers finish what they have, for `patience` at most, then are told to give
  // up.
  void Stop(std::chrono::milliseconds patience);

 private:
  struct Instruments {
    Counter& success;
    Counter& requeue;
    Counter& requeue_after;
    Counter& error;
    Counter& errors;
    Counter& panics;
    Histogram& time;
    Gauge& active;
    Gauge& max;
  };
  static Instruments MakeInstruments(const std::string& name, Metrics& metrics);
  void Work();
  void Process(const std::string& key);
  Outcome ReconcileSafely(const std::string& key);
  void Settle(const std::string& key, const Outcome& outcome);

  const std::string name_;
  WorkQueue& queue_;
  Reconciler& reconciler_;
  const int worker_count_;
  const Instruments instruments_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int running_ = 0;
  int active_ = 0;
  std::vector<std::jthread> workers_;
};

}  // namespace ddp::controller
