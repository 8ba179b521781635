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

TEST(Json, LeavesOutWhatNobodyReads) {
  const struct {
    const char* text;
    const char* left;
  } kRows[] = {
      {R"({"a":1,"x":2,"b":{"x":[1,{"a":2}],"c":[]}})", R"({"a":1,"b":{"c":[]}})"},
      {R"([{"x":{}},{"x":null,"y":"z"},3.5,-1,true])", R"([{},{"y":"z"},3.5,-1,true])"},
      {R"({"x":{"x":{"x":1}},"a":{"b":[[1,2],{"c":{}}]}})", R"({"a":{"b":[[1,2],{"c":{}}]}})"},
      {R"("x")", R"("x")"},
      {"null", "null"},
  };
  for (const auto& row : kRows) {
    const auto parsed = ParseWithout(row.text, {"x"});
    ASSERT_TRUE(parsed) << row.text;
    EXPECT_EQ(Dump(*parsed), row.left);
  }
  for (const char* bad : {"", "{", "{\"x\":}", "[1,]", "nul"}) {
    EXPECT_FALSE(ParseWithout(bad, {"x"})) << bad;
  }
  EXPECT_FALSE(ParseWithout(std::string(100'000, '['), {"x"}));
}

}  // namespace
}  // namespace ddp::json
