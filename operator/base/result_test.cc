#include "operator/base/result.h"

#include <gtest/gtest.h>

#include <memory>

#include "operator/base/clock.h"

namespace ddp::base {
namespace {

Result<std::unique_ptr<int>> Half(int n) {
  if (n % 2 != 0) {
    return Error{ErrorCode::kInvalid, "odd"};
  }
  return std::make_unique<int>(n / 2);
}

TEST(Result, HoldsValueOrError) {
  auto four = Half(8);
  ASSERT_TRUE(four);
  EXPECT_EQ(**four, 4);
  std::unique_ptr<int> moved = *std::move(four);
  EXPECT_EQ(*moved, 4);
  auto bad = Half(3);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalid);
  EXPECT_STREQ(Name(bad.error().code), "invalid");
}

TEST(ResultDeathTest, WrongSideDies) {
  EXPECT_DEATH((void)Half(3).value(), "holds an error");
  EXPECT_DEATH((void)Half(2).error(), "holds a value");
}

TEST(Time, RoundTrips) {
  const auto time = ParseTime("2026-01-02T03:04:05.000006Z");
  ASSERT_TRUE(time);
  EXPECT_EQ(FormatMicroTime(*time), "2026-01-02T03:04:05.000006Z");
  EXPECT_EQ(FormatTime(*time), "2026-01-02T03:04:05Z");
  EXPECT_EQ(ParseTime("2026-01-02T05:04:05+02:00").value(),
            ParseTime("2026-01-02T03:04:05Z").value());
  for (const char* bad :
       {"", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", "2026-01-02T03:04:05.Z"}) {
    EXPECT_FALSE(ParseTime(bad)) << bad;
  }
}

}  // namespace
}  // namespace ddp::base
