#include "operator/base/log.h"

#include <gtest/gtest.h>

namespace ddp::base {
namespace {

TEST(Log, IsOneJsonLineWhateverTheText) {
  EXPECT_EQ(
      FormatLogForTest(
          Level::kWarning, "lost a \"pod\"",
          {{"job", "a/b"}, {"count", 3}, {"ratio", 0.5}, {"done", true}, {"text", "x\ny\t\\"}}),
      R"({"level":"warning","msg":"lost a \"pod\"","job":"a/b","count":3,"ratio":0.5,"done":true,"text":"x\ny\u0009\\"})");
}

TEST(Log, RefusesUnknownLevels) {
  EXPECT_FALSE(SetLogLevel("loud"));
  EXPECT_TRUE(SetLogLevel("info"));
}

}  // namespace
}  // namespace ddp::base
