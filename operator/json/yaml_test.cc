#include <gtest/gtest.h>

#include "operator/json/json.h"

namespace ddp::json {
namespace {

struct Case {
  const char* yaml;
  const char* json;
};

class Scalars : public testing::TestWithParam<Case> {};

TEST_P(Scalars, BecomeWhatKubernetesReads) {
  const auto documents = ParseYaml(GetParam().yaml);
  ASSERT_TRUE(documents) << documents.error().message;
  ASSERT_EQ(documents->size(), 1U);
  EXPECT_EQ(Dump(documents->front()), GetParam().json);
}

INSTANTIATE_TEST_SUITE_P(
    Yaml, Scalars,
    testing::Values(Case{"a: 1", R"({"a":1})"}, Case{"a: \"1\"", R"({"a":"1"})"},
                    Case{"a: '1'", R"({"a":"1"})"}, Case{"a: 0123", R"({"a":123})"},
                    Case{"a: 1.5", R"({"a":1.5})"}, Case{"a: -1e3", R"({"a":-1000.0})"},
                    Case{"a: on", R"({"a":"on"})"}, Case{"a: yes", R"({"a":"yes"})"},
                    Case{"a: true", R"({"a":true})"}, Case{"a:", R"({"a":null})"},
                    Case{"a: ~", R"({"a":null})"}, Case{"a: 1Gi", R"({"a":"1Gi"})"},
                    Case{"a: 1.2.3", R"({"a":"1.2.3"})"},
                    Case{"a: 2026-01-02", R"({"a":"2026-01-02"})"},
                    Case{"a:\n- ", R"({"a":[null]})"}, Case{"a: .", R"({"a":"."})"},
                    Case{"a: +", R"({"a":"+"})"}, Case{"1: x", R"({"1":"x"})"},
                    Case{"- |\n  two\n  lines\n", R"(["two\nlines\n"])"},
                    Case{R"({"a": ["b", 2]})", R"({"a":["b",2]})"}));

TEST(Yaml, ReadsEveryDocument) {
  const auto documents = ParseYaml("---\na: 1\n---\n---\nb: 2\n");
  ASSERT_TRUE(documents);
  ASSERT_EQ(documents->size(), 2U);
  EXPECT_EQ(Dump((*documents)[1]), R"({"b":2})");
}

TEST(Yaml, RefusalsNameTheirPlace) {
  struct Bad {
    std::string yaml;
    const char* says;
  };
  std::string deep;
  for (int i = 0; i < 300; ++i) {
    deep += "[";
  }
  deep += std::string(300, ']');
  for (const auto& [yaml, says] :
       {Bad{"a: 1\nb: 2\na: 3\n", "line 3, column 1: key 'a' is given twice"},
        Bad{"a: &x 1\nb: *x\n", "line 2, column 4: aliases"}, Bad{"a: [1\n", "line 2"},
        Bad{"a: !!binary aGk=\n", "tag"}, Bad{"? [a]\n: 1\n", "a key must be plain text"},
        Bad{deep, "nested deeper"}}) {
    const auto documents = ParseYaml(yaml);
    ASSERT_FALSE(documents) << yaml;
    EXPECT_NE(documents.error().message.find(says), std::string::npos) << documents.error().message;
  }
}

}  // namespace
}  // namespace ddp::json
