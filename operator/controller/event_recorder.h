// Tells people what happened, as events.k8s.io/v1 Events on an object. Recording never blocks: a
// bounded queue feeds a thread, and what does not fit is dropped and counted. The same event again
// within 6 minutes becomes a count on the first (client-go tools/events). Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "operator/base/clock.h"
#include "operator/controller/metrics.h"
#include "operator/kube/client.h"

namespace ddp::controller {

struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string name_space;
  std::string name;
  std::string uid;
};

struct EventNote {
  ObjectReference regarding;
  bool warning = false;
  std::string reason;  // "PodsCreated": a constant
  std::string action;  // what was being done: a constant
  std::string note;    // for people, at most 1 KiB
};

// Decides whether a note is a new event or one more of a series. Pure but for its memory, which
// holds the last 4096 series that still go on. Not thread-safe.
class EventAggregator {
 public:
  EventAggregator(std::string controller, std::string instance)
      : controller_(std::move(controller)), instance_(std::move(instance)) {}

  struct Create {
    std::string name_space;
    json::Json event;
  };
  struct AddToSeries {
    std::string name_space;
    std::string name;
    json::Json patch;
  };
  using Write = std::variant<Create, AddToSeries>;
  Write Next(const EventNote& note, base::TimePoint now);
  // The event could not be written, or is gone: the next one like it starts anew.
  void Forget(const EventNote& note);

 private:
  // Small, as there may be thousands: what the note itself tells is not kept.
  struct Series {
    uint64_t fingerprint = 0;
    base::TimePoint begun;  // names the event
    base::TimePoint last_seen;
    int count = 1;
  };
  // Where it is, or would be.
  std::vector<Series>::iterator Find(uint64_t fingerprint);
  Create Start(uint64_t fingerprint, const EventNote& note, base::TimePoint now);

  const std::string controller_;
  const std::string instance_;
  // By fingerprint. A few notes a second at most pass over it: compact beats quick here.
  std::vector<Series> series_;
};

class EventRecorder {
 public:
  EventRecorder(kube::Client client, Metrics& metrics, std::string controller, std::string instance,
                const base::Clock& clock = base::SystemClock());
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;
  // Gives what is queued a moment to be sent.
  ~EventRecorder();

  void Record(EventNote note);

 private:
  void Run(const std::stop_token& stop);
  void Send(const EventNote& note, const std::stop_token& stop);
  kube::ApiResult<json::Json> Write(const EventAggregator::Write& write,
                                    const std::stop_token& stop);

  kube::Client client_;
  const base::Clock& clock_;
  Counter& sent_;
  Counter& dropped_;
  EventAggregator aggregator_;  // only the thread uses it
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<EventNote> queue_;
  bool idle_ = true;
  std::jthread thread_;
};

}  // namespace ddp::controller
