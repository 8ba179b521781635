#include "operator/json/json.h"

#include <gtest/gtest.h>

namespace ddp::json {
namespace {

TEST(Json, RefusesBadTextAndDepth) {
  EXPECT_TRUE(Parse(R"({"a":[1,2,{"b":null}]})"));
  EXPECT_FALSE(Parse("{"));
  EXPECT_FALSE(Parse(""));
  EXPECT_FALSE(Parse(std::string(100'000, '[')));
}

TEST(Json, FindsByPath) {
  const Json pod =
      *Parse(R"({"metadata":{"name":"a","generation":3},"spec":{"hostNetwork":true}})");
  EXPECT_EQ(GetString(pod, {"metadata", "name"}), "a");
  EXPECT_EQ(GetString(pod, {"metadata", "generation"}, "none"), "none");
  EXPECT_EQ(GetInt(pod, {"metadata", "generation"}), 3);
  EXPECT_TRUE(GetBool(pod, {"spec", "hostNetwork"}));
  EXPECT_EQ(Find(pod, {"spec", "x", "y"}), nullptr);
}

}  // namespace
}  // namespace ddp::json
