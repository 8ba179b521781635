#include "operator/base/backoff.h"

#include <gtest/gtest.h>

#include <limits>

namespace ddp::base {
namespace {

using std::chrono::seconds;

TEST(ExponentialDelay, DoublesUntilTheCap) {
  struct Case {
    int failures;
    seconds want;
  };
  for (const auto& [failures, want] :
       {Case{-1, seconds(0)}, Case{0, seconds(0)}, Case{1, seconds(1)}, Case{2, seconds(2)},
        Case{9, seconds(256)}, Case{10, seconds(300)},
        Case{std::numeric_limits<int>::max(), seconds(300)}}) {
    EXPECT_EQ(ExponentialDelay(failures, seconds(1), seconds(300)), want) << failures;
  }
}

}  // namespace
}  // namespace ddp::base
