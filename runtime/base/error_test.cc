#include "runtime/base/error.h"

#include <gtest/gtest.h>

namespace ddp::rt {
namespace {

TEST(Error, CarriesItsExitCode) {
  try {
    throw Error(ExitCode::kConfig, "replicas must be positive");
  } catch (const std::exception& e) {
    EXPECT_STREQ(e.what(), "replicas must be positive");
    EXPECT_EQ(static_cast<int>(dynamic_cast<const Error&>(e).code()), 78);
  }
}

TEST(ErrorDeathTest, CheckDies) {
  EXPECT_DEATH(DDP_RT_CHECK(1 > 2, "never"), "CHECK\\(1 > 2\\) never");
}

}  // namespace
}  // namespace ddp::rt
