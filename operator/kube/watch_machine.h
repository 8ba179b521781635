// List, then watch, then watch again, for ever: the whole error table of a reflector as one pure
// function, so that it is tested without a network. Semantics and constants follow client-go
// tools/cache/reflector.go and kube-rs watcher.rs.
//
//   kStreaming --end of the initial events--> kWatching --410 / version too large--> kStreaming
//   kStreaming --the server can't--> kListing --last page--> kWatching
//
// Streaming (sendInitialEvents, Kubernetes 1.27 and later) begins a watch with what is there,
// object by object: neither side ever holds a whole list. Lists are paged and always ask for the
// most recent state (no resourceVersion): a list from the server's cache may go back in time, and
// an operator that restarts in the middle of a job must not see its own last writes undone.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "operator/kube/client.h"

namespace ddp::kube {

// What the reader of a watch hears. A list arrives as kInitStart, items, kInitDone; a kInitStart in
// between starts over. After kInitDone, whatever was not among the items is gone.
struct ObjectEvent {
  enum class Kind { kInitStart, kInitItem, kInitDone, kUpsert, kDelete };
  Kind kind;
  json::Json object;
};

struct WatchState {
  enum class Phase { kStreaming, kListing, kWatching };
  Phase phase = Phase::kStreaming;
  bool can_stream = true;        // until the server says otherwise
  bool stream_begun = false;     // kStreaming: kInitStart has been told
  std::string continue_token;    // kListing: of the next page, empty for the first
  std::string resource_version;  // kWatching: of the last thing heard
  int failures = 0;              // in a row
  std::chrono::steady_clock::time_point last_failure{};
  std::chrono::steady_clock::time_point watch_started{};
  size_t events_on_watch = 0;
};

// What happened, as inputs of the machine.
struct WatchStarted {};  // the request goes out now
struct WatchLine {       // one decoded line of the stream
  std::string type;      // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
  json::Json object;
};
// A line that is no event becomes an ERROR event: some servers write a bare Status.
WatchLine ParseWatchLine(std::string_view text, const json::Names& leave_out = {});
struct WatchClosed {};  // the server ended the stream cleanly
struct RequestFailed {  // a list or a watch, at its start or in the middle
  ApiError error;
};
using WatchInput = std::variant<ListPage, WatchStarted, WatchLine, WatchClosed, RequestFailed>;

struct ListRequest {
  std::string continue_token;
};
struct WatchRequest {
  std::string resource_version;
  int timeout_seconds;
  bool initial_events = false;
};

struct WatchOutput {
  std::vector<ObjectEvent> events;
  // Nothing: go on reading the stream. Otherwise a stream that is still open is to be ended.
  std::optional<std::variant<ListRequest, WatchRequest>> next;
  std::chrono::milliseconds delay{0};  // before `next`
};

// `random` in [0, 1) spreads clients over time.
WatchOutput FirstRequest(const WatchState& state, double random);
WatchOutput Step(WatchState& state, WatchInput input, std::chrono::steady_clock::time_point now,
                 double random);

}  // namespace ddp::kube
