#include "runtime/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace ddp::rt {
namespace {

TEST(LogLastWords, IsALineLikeAnyOther) {
  SetLogRank(1, 4);
  testing::internal::CaptureStderr();
  LogLastWords("stuck for {:.1f} s", 2.5);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex("E ..:..:...... rank 1/4: stuck for 2\\.5 s\n"));
  SetLogRank(0, 1);
}

TEST(LogLastWords, CutsWhatIsTooLong) {
  testing::internal::CaptureStderr();
  LogLastWords(std::string(1000, 'x'));
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), 'x'), 400);
  EXPECT_EQ(line.back(), '\n');
}

// A pipe that nobody reads and that is full must hold up nobody.
TEST(LogLastWords, IsLostWhereNothingIsTaken) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  ASSERT_EQ(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
  const std::string page(4096, 'x');
  while (write(fds[1], page.data(), page.size()) > 0) {
  }
  ASSERT_EQ(fcntl(fds[1], F_SETFL, 0), 0);
  const int kept = dup(STDERR_FILENO);
  dup2(fds[1], STDERR_FILENO);
  LogLastWords("nobody hears this");  // returns
  dup2(kept, STDERR_FILENO);
  for (const int fd : {kept, fds[0], fds[1]}) {
    close(fd);
  }
}

}  // namespace
}  // namespace ddp::rt
