#include "operator/controller/event_recorder.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/base/backoff.h"
#include "operator/base/log.h"

namespace ddp::controller {
namespace {

using json::Json;

constexpr std::chrono::minutes kSeriesEndsAfter{6};
constexpr size_t kMaxSeries = 4096;
constexpr size_t kMaxQueued = 1000;
constexpr size_t kMaxReason = 128;
constexpr size_t kMaxNote = 1024;
constexpr int kTries = 12;
constexpr std::chrono::seconds kFlushTime{2};

const kube::Resource& Events() {
  static const kube::Resource events{"events.k8s.io", "v1", "events", "Event"};
  return events;
}

// Never in the middle of a UTF-8 sequence.
std::string CutTo(const std::string& text, size_t bytes) {
  size_t end = std::min(text.size(), bytes);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return text.substr(0, end);
}

// Of what makes two notes the same. Of 4096 series two share one by chance in 1 of 10^12 cases;
// then a note would be counted on the other's event.
uint64_t Fingerprint(const EventNote& note) {
  return std::hash<std::string>{}(fmt::format("{}\n{}\n{}\n{}\n{}", note.regarding.uid,
                                              note.warning, note.reason, note.action, note.note));
}

// Unique among this object's events: one series starts at a time, at this microsecond or later.
std::string EventName(const EventNote& note, uint64_t fingerprint, base::TimePoint begun) {
  return fmt::format("{}.{:x}{:04x}", note.regarding.name, begun.time_since_epoch().count(),
                     fingerprint & 0xFFFFU);
}

}  // namespace

std::vector<EventAggregator::Series>::iterator EventAggregator::Find(uint64_t fingerprint) {
  return std::ranges::lower_bound(series_, fingerprint, {}, &Series::fingerprint);
}

EventAggregator::Write EventAggregator::Next(const EventNote& note, base::TimePoint now) {
  std::erase_if(series_,
                [now](const Series& series) { return now - series.last_seen > kSeriesEndsAfter; });
  const uint64_t fingerprint = Fingerprint(note);
  const auto known = Find(fingerprint);
  if (known == series_.end() || known->fingerprint != fingerprint) {
    return Start(fingerprint, note, now);
  }
  known->last_seen = now;
  ++known->count;
  return AddToSeries{
      note.regarding.name_space,
      EventName(note, fingerprint, known->begun),
      {{"series", {{"count", known->count}, {"lastObservedTime", base::FormatMicroTime(now)}}}}};
}

EventAggregator::Create EventAggregator::Start(uint64_t fingerprint, const EventNote& note,
                                               base::TimePoint now) {
  const ObjectReference& object = note.regarding;
  if (series_.size() == kMaxSeries) {
    series_.erase(std::ranges::min_element(series_, {}, &Series::last_seen));
  }
  series_.insert(Find(fingerprint), {fingerprint, now, now, 1});
  return {object.name_space,
          {{"apiVersion", "events.k8s.io/v1"},
           {"kind", "Event"},
           {"metadata",
            {{"name", EventName(note, fingerprint, now)}, {"namespace", object.name_space}}},
           {"eventTime", base::FormatMicroTime(now)},
           {"reportingController", controller_},
           {"reportingInstance", CutTo(instance_, kMaxReason)},
           {"action", CutTo(note.action, kMaxReason)},
           {"reason", CutTo(note.reason, kMaxReason)},
           {"regarding",
            {{"apiVersion", object.api_version},
             {"kind", object.kind},
             {"namespace", object.name_space},
             {"name", object.name},
             {"uid", object.uid}}},
           {"note", CutTo(note.note, kMaxNote)},
           {"type", note.warning ? "Warning" : "Normal"}}};
}

void EventAggregator::Forget(const EventNote& note) {
  const uint64_t fingerprint = Fingerprint(note);
  const auto known = Find(fingerprint);
  if (known != series_.end() && known->fingerprint == fingerprint) {
    series_.erase(known);
  }
}

EventRecorder::EventRecorder(kube::Client client, Metrics& metrics, std::string controller,
                             std::string instance, const base::Clock& clock)
    : client_(std::move(client)),
      clock_(clock),
      sent_(metrics.AddCounter("ddpjob_events_sent_total", "Events written to the API server")),
      dropped_(metrics.AddCounter("ddpjob_events_dropped_total",
                                  "Events lost: queue full, refused, or never delivered")),
      aggregator_(std::move(controller), std::move(instance)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

EventRecorder::~EventRecorder() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kFlushTime, [this] { return queue_.empty() && idle_; });
}

void EventRecorder::Record(EventNote note) {
  std::lock_guard lock(mutex_);
  if (queue_.size() >= kMaxQueued) {
    dropped_.Increment();
    return;
  }
  queue_.push_back(std::move(note));
  changed_.notify_all();
}

void EventRecorder::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !queue_.empty(); })) {
    const EventNote note = std::move(queue_.front());
    queue_.pop_front();
    idle_ = false;
    lock.unlock();
    Send(note, stop);
    lock.lock();
    idle_ = true;
    changed_.notify_all();
  }
}

kube::ApiResult<Json> EventRecorder::Write(const EventAggregator::Write& write,
                                           const std::stop_token& stop) {
  if (const auto* create = std::get_if<EventAggregator::Create>(&write)) {
    return client_.Create(Events(), create->name_space, create->event, stop);
  }
  const auto& series = std::get<EventAggregator::AddToSeries>(write);
  return client_.Patch(Events(), series.name_space, series.name, kube::PatchType::kMerge,
                       series.patch, "", stop);
}

void EventRecorder::Send(const EventNote& note, const std::stop_token& stop) {
  EventAggregator::Write write = aggregator_.Next(note, clock_.Now());
  for (int attempt = 1; attempt <= kTries && !stop.stop_requested(); ++attempt) {
    const auto result = Write(write, stop);
    // A create whose answer was lost and which was sent again is there.
    if (result || result.error().code == base::ErrorCode::kAlreadyExists) {
      sent_.Increment();
      return;
    }
    if (result.error().code == base::ErrorCode::kNotFound &&
        std::holds_alternative<EventAggregator::AddToSeries>(write)) {
      aggregator_.Forget(note);  // events are deleted after an hour or by hand
      write = aggregator_.Next(note, clock_.Now());
      continue;
    }
    if (result.error().http != 0 && result.error().code != base::ErrorCode::kTooManyRequests &&
        result.error().code != base::ErrorCode::kUnavailable) {
      base::Log(base::Level::kWarning, "event refused",
                {{"reason", note.reason}, {"error", result.error().message}});
      break;
    }
    const auto delay =
        base::ExponentialDelay(attempt, std::chrono::milliseconds(500), std::chrono::seconds(10));
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, delay, [] { return false; });
  }
  aggregator_.Forget(note);
  dropped_.Increment();
}

}  // namespace ddp::controller
