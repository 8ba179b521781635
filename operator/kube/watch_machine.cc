#include "operator/kube/watch_machine.h"

#include <algorithm>
#include <utility>

#include "operator/base/backoff.h"

namespace ddp::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = std::chrono::steady_clock::time_point;
using Kind = ObjectEvent::Kind;

// client-go reflector.go: 800 ms to 30 s, doubled, jitter 1.0, forgotten after 2 minutes.
constexpr milliseconds kFirstDelay{800};
constexpr milliseconds kMaxDelay{30'000};
constexpr seconds kForgetFailuresAfter{120};
// A watch is asked to end after 5 to 10 minutes; one that ends at once and empty is a failure.
constexpr int kMinWatchSeconds = 300;
constexpr seconds kVeryShortWatch{1};
constexpr const char* kInitialEventsEnd = "k8s.io/initial-events-end";

milliseconds Backoff(int failures, double random) {
  const auto delay = base::ExponentialDelay(failures, kFirstDelay, kMaxDelay);
  const auto jittered = delay * (1.0 + random);
  return std::min(kMaxDelay, std::chrono::duration_cast<milliseconds>(jittered));
}

bool MustListAgain(const ApiError& error) {
  return error.code == base::ErrorCode::kGone ||
         std::any_of(error.causes.begin(), error.causes.end(),
                     [](const Cause& cause) { return cause.reason == "ResourceVersionTooLarge"; });
}

class Stepper {
 public:
  Stepper(WatchState& state, Time now, double random) : state_(state), now_(now), random_(random) {}

  WatchOutput operator()(ListPage page) {
    WatchOutput out;
    if (state_.continue_token.empty()) {
      out.events.push_back({Kind::kInitStart, {}});
    }
    for (json::Json& item : page.items) {
      out.events.push_back({Kind::kInitItem, std::move(item)});
    }
    state_.continue_token = std::move(page.continue_token);
    if (state_.continue_token.empty()) {
      out.events.push_back({Kind::kInitDone, {}});
      state_.phase = WatchState::Phase::kWatching;
      state_.resource_version = std::move(page.resource_version);
    }
    return Then(std::move(out), milliseconds(0));
  }

  WatchOutput operator()(const WatchStarted& /*input*/) {
    state_.watch_started = now_;
    state_.events_on_watch = 0;
    state_.stream_begun = false;
    return {};
  }

  WatchOutput operator()(WatchLine line) {
    if (line.type == "ERROR") {
      return (*this)(
          RequestFailed{ParseApiError(static_cast<int>(json::GetInt(line.object, {"code"})),
                                      json::Dump(line.object), std::nullopt)});
    }
    if (state_.phase == WatchState::Phase::kStreaming) {
      return Initial(std::move(line));
    }
    WatchOutput out;
    std::string version = json::GetString(line.object, {"metadata", "resourceVersion"});
    if (!version.empty()) {
      state_.resource_version = std::move(version);
    }
    ++state_.events_on_watch;
    state_.failures = 0;
    if (line.type == "ADDED" || line.type == "MODIFIED") {
      out.events.push_back({Kind::kUpsert, std::move(line.object)});
    } else if (line.type == "DELETED") {
      out.events.push_back({Kind::kDelete, std::move(line.object)});
    }
    return out;  // a BOOKMARK only moves the version
  }

  // An object that is there, or the mark after the last of them.
  WatchOutput Initial(WatchLine line) {
    WatchOutput out;
    if (!std::exchange(state_.stream_begun, true)) {
      out.events.push_back({Kind::kInitStart, {}});
    }
    if (line.type == "ADDED" || line.type == "MODIFIED") {
      out.events.push_back({Kind::kInitItem, std::move(line.object)});
    } else if (line.type == "BOOKMARK" &&
               json::GetString(line.object, {"metadata", "annotations", kInitialEventsEnd}) ==
                   "true") {
      out.events.push_back({Kind::kInitDone, {}});
      state_.phase = WatchState::Phase::kWatching;
      state_.resource_version = json::GetString(line.object, {"metadata", "resourceVersion"});
      ++state_.events_on_watch;
      state_.failures = 0;
    }
    return out;
  }

  WatchOutput operator()(const WatchClosed& /*input*/) {
    if (state_.phase == WatchState::Phase::kStreaming) {
      state_.phase = WatchState::Phase::kListing;  // another way, this time
      return Then({}, CountFailure());
    }
    if (state_.events_on_watch == 0 && now_ - state_.watch_started < kVeryShortWatch) {
      return Then({}, CountFailure());
    }
    return Then({}, milliseconds(0));
  }

  WatchOutput operator()(const RequestFailed& failed) {
    if (state_.phase == WatchState::Phase::kStreaming &&
        failed.error.code == base::ErrorCode::kInvalid) {
      state_.can_stream = false;  // an older server, or one whose feature is switched off
      state_.phase = WatchState::Phase::kListing;
      return Then({}, milliseconds(0));
    }
    const milliseconds backoff = CountFailure();
    if (MustListAgain(failed.error)) {
      state_.phase =
          state_.can_stream ? WatchState::Phase::kStreaming : WatchState::Phase::kListing;
      state_.continue_token.clear();
      // Losing one's place once is normal; again and again would be a list storm.
      return Then({}, state_.failures == 1 ? milliseconds(0) : backoff);
    }
    const milliseconds told = failed.error.retry_after.value_or(seconds(0));
    return Then({}, std::max(backoff, told));
  }

  WatchOutput Then(WatchOutput out, milliseconds delay) const {
    out.delay = delay;
    if (state_.phase == WatchState::Phase::kListing) {
      out.next = ListRequest{state_.continue_token};
    } else {
      const int spread = static_cast<int>(random_ * kMinWatchSeconds);
      const bool initial = state_.phase == WatchState::Phase::kStreaming;
      out.next =
          WatchRequest{initial ? "" : state_.resource_version, kMinWatchSeconds + spread, initial};
    }
    return out;
  }

 private:
  milliseconds CountFailure() {
    if (now_ - state_.last_failure > kForgetFailuresAfter) {
      state_.failures = 0;
    }
    state_.last_failure = now_;
    ++state_.failures;
    return Backoff(state_.failures, random_);
  }

  WatchState& state_;
  const Time now_;
  const double random_;
};

}  // namespace

WatchLine ParseWatchLine(std::string_view text, const json::Names& leave_out) {
  auto parsed = json::ParseWithout(text, leave_out);
  if (!parsed) {
    return {"ERROR", {{"kind", "Status"}, {"code", 500}, {"message", parsed.error().message}}};
  }
  const auto type = parsed->find("type");
  const auto object = parsed->find("object");
  if (type == parsed->end() || !type->is_string() || object == parsed->end()) {
    return {"ERROR", *std::move(parsed)};
  }
  return {type->get<std::string>(), std::move(*object)};
}

WatchOutput FirstRequest(const WatchState& state, double random) {
  WatchState copy = state;
  return Stepper(copy, {}, random).Then({}, milliseconds(0));
}

WatchOutput Step(WatchState& state, WatchInput input, Time now, double random) {
  return std::visit(Stepper(state, now, random), std::move(input));
}

}  // namespace ddp::kube
