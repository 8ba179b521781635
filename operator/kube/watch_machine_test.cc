#include "operator/kube/watch_machine.h"

#include <gtest/gtest.h>

namespace ddp::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = ObjectEvent::Kind;
using Phase = WatchState::Phase;

const std::chrono::steady_clock::time_point kStart{std::chrono::hours(1000)};

json::Json Object(const std::string& version) {
  return {{"metadata", {{"name", "a"}, {"resourceVersion", version}}}};
}

ApiError Error(base::ErrorCode code, int http) {
  ApiError error;
  error.code = code;
  error.http = http;
  return error;
}

WatchState Watching() {
  WatchState state;
  state.phase = Phase::kWatching;
  state.resource_version = "7";
  state.watch_started = kStart;
  return state;
}

std::string WatchVersion(const WatchOutput& out) {
  return std::get<WatchRequest>(out.next.value()).resource_version;
}

TEST(WatchMachine, ListsPageByPageThenWatches) {
  WatchState state;
  state.phase = Phase::kListing;
  WatchOutput first = FirstRequest(state, 0);
  EXPECT_EQ(std::get<ListRequest>(first.next.value()).continue_token, "");

  WatchOutput out = Step(state, ListPage{{Object("1")}, "more", "5"}, kStart, 0);
  ASSERT_EQ(out.events.size(), 2U);
  EXPECT_EQ(out.events[0].kind, Kind::kInitStart);
  EXPECT_EQ(out.events[1].kind, Kind::kInitItem);
  EXPECT_EQ(std::get<ListRequest>(out.next.value()).continue_token, "more");

  out = Step(state, ListPage{{Object("2")}, "", "6"}, kStart, 0.5);
  ASSERT_EQ(out.events.size(), 2U);
  EXPECT_EQ(out.events[0].kind, Kind::kInitItem);
  EXPECT_EQ(out.events[1].kind, Kind::kInitDone);
  const auto watch = std::get<WatchRequest>(out.next.value());
  EXPECT_EQ(watch.resource_version, "6");
  EXPECT_EQ(watch.timeout_seconds, 450);
}

WatchLine InitialEventsEnd(const std::string& version) {
  return {
      "BOOKMARK",
      {{"metadata",
        {{"resourceVersion", version}, {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}}};
}

TEST(WatchMachine, StreamsWhatIsThereThenGoesOnWatching) {
  WatchState state;
  const auto first = std::get<WatchRequest>(FirstRequest(state, 0).next.value());
  EXPECT_TRUE(first.initial_events);
  EXPECT_EQ(first.resource_version, "");
  Step(state, WatchStarted{}, kStart, 0);
  WatchOutput out = Step(state, WatchLine{"ADDED", Object("3")}, kStart, 0);
  ASSERT_EQ(out.events.size(), 2U);
  EXPECT_EQ(out.events[0].kind, Kind::kInitStart);
  EXPECT_EQ(out.events[1].kind, Kind::kInitItem);
  out = Step(state, InitialEventsEnd("9"), kStart, 0);
  ASSERT_EQ(out.events.size(), 1U);
  EXPECT_EQ(out.events[0].kind, Kind::kInitDone);
  EXPECT_FALSE(out.next.has_value()) << "the same stream goes on";
  out = Step(state, WatchLine{"DELETED", Object("10")}, kStart, 0);
  EXPECT_EQ(out.events.at(0).kind, Kind::kDelete);
  out = Step(state, WatchClosed{}, kStart + seconds(300), 0);
  const auto next = std::get<WatchRequest>(out.next.value());
  EXPECT_FALSE(next.initial_events);
  EXPECT_EQ(next.resource_version, "10");
}

TEST(WatchMachine, AnEmptyStreamIsAnEmptyList) {
  WatchState state;
  Step(state, WatchStarted{}, kStart, 0);
  const WatchOutput out = Step(state, InitialEventsEnd("9"), kStart, 0);
  ASSERT_EQ(out.events.size(), 2U);
  EXPECT_EQ(out.events[0].kind, Kind::kInitStart);
  EXPECT_EQ(out.events[1].kind, Kind::kInitDone);
}

TEST(WatchMachine, AServerThatCannotStreamIsListedFromThenOn) {
  WatchState state;
  WatchOutput out = Step(state, RequestFailed{Error(base::ErrorCode::kInvalid, 422)}, kStart, 0);
  EXPECT_TRUE(std::holds_alternative<ListRequest>(out.next.value()));
  EXPECT_EQ(out.delay, milliseconds(0));
  Step(state, ListPage{{}, "", "5"}, kStart, 0);
  out = Step(state, RequestFailed{Error(base::ErrorCode::kGone, 410)}, kStart, 0);
  EXPECT_TRUE(std::holds_alternative<ListRequest>(out.next.value()));
}

TEST(WatchMachine, AStreamThatBreaksOffStartsOver) {
  WatchState state;
  Step(state, WatchStarted{}, kStart, 0);
  Step(state, WatchLine{"ADDED", Object("3")}, kStart, 0);
  WatchOutput out = Step(state, RequestFailed{Error(base::ErrorCode::kUnavailable, 0)}, kStart, 0);
  EXPECT_TRUE(std::get<WatchRequest>(out.next.value()).initial_events);
  Step(state, WatchStarted{}, kStart, 0);
  out = Step(state, WatchLine{"ADDED", Object("4")}, kStart, 0);
  EXPECT_EQ(out.events.at(0).kind, Kind::kInitStart);
  // One that ends cleanly before its end is not trusted again.
  out = Step(state, WatchClosed{}, kStart, 0);
  EXPECT_TRUE(std::holds_alternative<ListRequest>(out.next.value()));
}

TEST(WatchMachine, TimeoutsStayWithinFiveAndTenMinutes) {
  for (const double random : {0.0, 0.3, 0.999999}) {
    const auto out = FirstRequest(Watching(), random);
    const int timeout = std::get<WatchRequest>(out.next.value()).timeout_seconds;
    EXPECT_GE(timeout, 300);
    EXPECT_LT(timeout, 600);
  }
}

TEST(WatchMachine, EventsMoveTheVersionAndABookmarkOnlyThat) {
  struct Row {
    const char* type;
    std::optional<Kind> kind;
  };
  const Row rows[] = {{"ADDED", Kind::kUpsert},
                      {"MODIFIED", Kind::kUpsert},
                      {"DELETED", Kind::kDelete},
                      {"BOOKMARK", std::nullopt},
                      {"SOMETHING_NEW", std::nullopt}};
  for (const Row& row : rows) {
    WatchState state = Watching();
    state.failures = 3;
    const WatchOutput out = Step(state, WatchLine{row.type, Object("9")}, kStart, 0);
    EXPECT_FALSE(out.next) << row.type;
    EXPECT_EQ(state.resource_version, "9");
    EXPECT_EQ(state.failures, 0);
    ASSERT_EQ(out.events.size(), row.kind ? 1U : 0U);
    if (row.kind) {
      EXPECT_EQ(out.events[0].kind, *row.kind);
    }
  }
}

// The error table.
TEST(WatchMachine, EveryFailureHasItsNextRequestAndDelay) {
  struct Row {
    const char* what;
    ApiError error;
    Phase next;
    milliseconds delay;
  };
  ApiError too_large = Error(base::ErrorCode::kUnavailable, 504);
  too_large.causes.push_back({"ResourceVersionTooLarge", "", ""});
  ApiError told = Error(base::ErrorCode::kTooManyRequests, 429);
  told.retry_after = seconds(9);
  const Row rows[] = {
      {"refused", Error(base::ErrorCode::kUnavailable, 0), Phase::kWatching, milliseconds(800)},
      {"silence", Error(base::ErrorCode::kDeadline, 0), Phase::kWatching, milliseconds(800)},
      {"500", Error(base::ErrorCode::kUnavailable, 500), Phase::kWatching, milliseconds(800)},
      {"429", Error(base::ErrorCode::kTooManyRequests, 429), Phase::kWatching, milliseconds(800)},
      {"429 with Retry-After", told, Phase::kWatching, seconds(9)},
      // Not a long wait at once: an API server that starts answers so until it has read its roles.
      {"403", Error(base::ErrorCode::kForbidden, 403), Phase::kWatching, milliseconds(800)},
      {"410", Error(base::ErrorCode::kGone, 410), Phase::kStreaming, milliseconds(0)},
      {"too large", too_large, Phase::kStreaming, milliseconds(0)},
  };
  for (const Row& row : rows) {
    WatchState state = Watching();
    const WatchOutput out = Step(state, RequestFailed{row.error}, kStart, 0);
    EXPECT_EQ(state.phase, row.next) << row.what;
    EXPECT_EQ(out.delay, row.delay) << row.what;
    EXPECT_TRUE(out.next) << row.what;
    EXPECT_TRUE(out.events.empty()) << row.what;
    if (row.next == Phase::kWatching) {
      EXPECT_EQ(WatchVersion(out), "7") << row.what;
    }
  }
}

TEST(WatchMachine, AnErrorEventOf410StartsOverAndAnyOtherKeepsTheVersion) {
  WatchState state = Watching();
  WatchOutput out =
      Step(state, WatchLine{"ERROR", {{"kind", "Status"}, {"code", 410}, {"reason", "Expired"}}},
           kStart, 0);
  EXPECT_TRUE(std::get<WatchRequest>(out.next.value()).initial_events);
  EXPECT_EQ(WatchVersion(out), "");

  state = Watching();
  state.can_stream = false;
  out = Step(state, WatchLine{"ERROR", {{"kind", "Status"}, {"code", 410}}}, kStart, 0);
  EXPECT_TRUE(std::holds_alternative<ListRequest>(out.next.value()));

  state = Watching();
  out = Step(state, WatchLine{"ERROR", {{"kind", "Status"}, {"code", 500}}}, kStart, 0);
  EXPECT_EQ(WatchVersion(out), "7");
  EXPECT_EQ(out.delay, milliseconds(800));
}

TEST(WatchMachine, APageTokenThatExpiredStartsTheListOver) {
  WatchState state;
  state.phase = Phase::kListing;
  state.can_stream = false;
  Step(state, ListPage{{Object("1")}, "more", ""}, kStart, 0);
  WatchOutput out = Step(state, RequestFailed{Error(base::ErrorCode::kGone, 410)}, kStart, 0);
  EXPECT_EQ(std::get<ListRequest>(out.next.value()).continue_token, "");
  out = Step(state, ListPage{{}, "", "8"}, kStart, 0);
  EXPECT_EQ(out.events.front().kind, Kind::kInitStart);
}

TEST(WatchMachine, BackoffDoublesWithJitterUpToItsCapAndIsForgotten) {
  WatchState state = Watching();
  const RequestFailed refused{Error(base::ErrorCode::kUnavailable, 0)};
  auto now = kStart;
  for (const int expected : {800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}) {
    EXPECT_EQ(Step(state, refused, now, 0).delay, milliseconds(expected));
    now += seconds(1);
  }
  EXPECT_EQ(Step(state, refused, now, 0.99).delay, seconds(30));
  now += seconds(121);
  EXPECT_EQ(Step(state, refused, now, 0.5).delay, milliseconds(1200));
}

TEST(WatchMachine, ACleanEndWatchesAgainAtOnceUnlessItWasVeryShort) {
  WatchState state = Watching();
  EXPECT_EQ(Step(state, WatchClosed{}, kStart + seconds(300), 0).delay, milliseconds(0));

  state = Watching();
  EXPECT_EQ(Step(state, WatchClosed{}, kStart + milliseconds(10), 0).delay, milliseconds(800));

  state = Watching();
  Step(state, WatchStarted{}, kStart, 0);
  Step(state, WatchLine{"BOOKMARK", Object("8")}, kStart, 0);
  const WatchOutput out = Step(state, WatchClosed{}, kStart + milliseconds(10), 0);
  EXPECT_EQ(out.delay, milliseconds(0));
  EXPECT_EQ(WatchVersion(out), "8");
}

TEST(WatchMachine, Repeated410DoesNotBecomeAListStorm) {
  WatchState state = Watching();
  const RequestFailed gone{Error(base::ErrorCode::kGone, 410)};
  EXPECT_EQ(Step(state, gone, kStart, 0).delay, milliseconds(0));
  EXPECT_EQ(Step(state, gone, kStart, 0).delay, milliseconds(1600));
}

}  // namespace
}  // namespace ddp::kube
