#include "runtime/launch/blame.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ddp::rt::launch {
namespace {

constexpr int Exit(int code) { return code << 8; }

Ended End(int rank, int status, bool told = false) {
  Ended ended;
  ended.rank = rank;
  ended.status = status;
  ended.told = told;
  return ended;
}

TEST(Blame, TheFirstInTimeFailedFirst) {
  const std::vector<Ended> ended = {End(2, SIGABRT), End(0, Exit(1)), End(1, SIGTERM, true)};
  EXPECT_EQ(FirstFailure(ended), 0U);
  EXPECT_EQ(ExitCodeOf(ended), 128 + SIGABRT);
}

TEST(Blame, OfFailuresAtOnceASignalIsTheCause) {
  std::vector<Ended> ended = {End(0, Exit(1)), End(3, Exit(1)), End(2, SIGSEGV), End(1, SIGBUS)};
  EXPECT_EQ(FirstFailure(ended), 2U);
  ended[2].after = kAtOnce + std::chrono::milliseconds(1);
  ended[3].after = ended[2].after;
  EXPECT_EQ(FirstFailure(ended), 0U);
}

TEST(Blame, LosingAPeerIsNeverTheCauseIfThereIsAnother) {
  const std::vector<Ended> ended = {End(0, Exit(69)), End(3, Exit(69)), End(1, Exit(70))};
  EXPECT_EQ(FirstFailure(ended), 2U);
  EXPECT_EQ(ExitCodeOf(ended), 70);
  EXPECT_EQ(FirstFailure({End(0, 0), End(1, Exit(69)), End(2, Exit(69))}), 1U);
}

TEST(Blame, StoppingOnRequestIsNoFailure) {
  const std::vector<Ended> stopped = {End(0, Exit(75)), End(1, Exit(75))};
  EXPECT_EQ(FirstFailure(stopped), std::nullopt);
  EXPECT_EQ(ExitCodeOf(stopped), 75);
  EXPECT_EQ(ExitCodeOf({End(0, Exit(75)), End(1, 0)}), 75);
  EXPECT_EQ(ExitCodeOf({End(0, 0), End(1, 0)}), 0);
  // Not all were in time.
  EXPECT_EQ(ExitCodeOf({End(0, Exit(75)), End(1, SIGKILL, true)}), 128 + SIGKILL);
  EXPECT_EQ(ExitCodeOf({End(0, SIGTERM, true)}), 128 + SIGTERM);
}

TEST(Blame, OnlyWhatAnotherStartMayCureIsStartedAgain) {
  for (const int code : {0, 64, 65, 66, 75, 78}) {
    EXPECT_FALSE(WorthRestarting(code)) << code;
  }
  for (const int code : {1, 2, 69, 70, 134, 137, 139, 143}) {
    EXPECT_TRUE(WorthRestarting(code)) << code;
  }
}

TEST(Blame, TheReportNamesRankSignalAndLastLines) {
  std::vector<Ended> ended = {End(2, SIGSEGV), End(0, SIGTERM, true)};
  ended[0].local_rank = 1;
  ended[0].pid = 77;
  ended[0].after = std::chrono::milliseconds(3210);
  ended[0].last_lines = {"going on", "oops"};
  const std::vector<std::string> wanted = {
      "rank 2 (local rank 1, pid 77) failed first: SIGSEGV (signal 11), 3.2 s after start",
      "the last lines of its standard error:",
      "  | going on",
      "  | oops",
      "hint: none",
      "rank 0: SIGTERM (signal 15), 0.0 s after start, by the launcher"};
  EXPECT_EQ(Report(ended, 0, "hint: none"), wanted);
}

}  // namespace
}  // namespace ddp::rt::launch
