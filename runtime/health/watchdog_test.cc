#include "runtime/health/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <thread>

namespace ddp::rt::health {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShort(50);
constexpr milliseconds kLong(60'000);

// Whether the watchdog finds this thread stuck in a phase; waits for that, or for `at_most`.
std::string StuckIn(train::Phase phase, const PhaseLimits& limits, milliseconds at_most) {
  train::Board board;
  board.phase = phase;
  board.step = 7;
  std::promise<std::string> found;
  auto future = found.get_future();
  const Watchdog watchdog(board, limits, [&](const std::string& what) { found.set_value(what); });
  return future.wait_for(at_most) == std::future_status::ready ? future.get() : "";
}

TEST(Watchdog, APhaseThatTakesTooLongIsNamed) {
  EXPECT_THAT(StuckIn(train::Phase::kTraining, {kShort, kLong, kLong}, kLong),
              testing::MatchesRegex("stuck for 0\\.[0-9] s after step 7, training"));
  EXPECT_THAT(StuckIn(train::Phase::kEvaluating, {kLong, kShort, kLong}, kLong),
              testing::HasSubstr("evaluating"));
  EXPECT_THAT(StuckIn(train::Phase::kSaving, {kLong, kLong, kShort}, kLong),
              testing::HasSubstr("saving"));
}

TEST(Watchdog, EachPhaseHasItsOwnDeadline) {
  EXPECT_EQ(StuckIn(train::Phase::kEvaluating, {kShort, kLong, kLong}, 4 * kShort), "");
  EXPECT_EQ(StuckIn(train::Phase::kStarting, {kShort, kShort, kShort}, 4 * kShort), "");
}

TEST(Watchdog, ProgressIsEnough) {
  train::Board board;
  board.phase = train::Phase::kTraining;
  bool expired = false;
  {
    const Watchdog watchdog(board, {milliseconds(500), kLong, kLong},
                            [&](const std::string&) { expired = true; });
    const auto end = std::chrono::steady_clock::now() + milliseconds(1200);
    while (std::chrono::steady_clock::now() < end) {
      ++board.step;
      std::this_thread::yield();
    }
  }
  EXPECT_FALSE(expired);
}

extern "C" __attribute__((noinline)) void WaitForEverInAFunctionWithAName(int fd) {
  char byte = 0;
  (void)!read(fd, &byte, 1);
}

TEST(Watchdog, TheStackOfAnotherThreadIsTold) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  std::thread stuck([&] { WaitForEverInAFunctionWithAName(fds[0]); });
  std::string stack;
  const auto end = std::chrono::steady_clock::now() + kLong;
  do {  // it may not be there yet
    stack = StackOf(stuck.native_handle());
  } while (stack.find("read (libc") == std::string::npos && std::chrono::steady_clock::now() < end);
  EXPECT_THAT(stack, testing::HasSubstr("#1 "));
  ASSERT_EQ(write(fds[1], "x", 1), 1);
  stuck.join();
  close(fds[0]);
  close(fds[1]);
}

}  // namespace
}  // namespace ddp::rt::health
