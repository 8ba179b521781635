#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/cluster.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/manifest.h"
#include "operator/cli/progress.h"
#include "operator/cli/yaml_writer.h"

namespace ddp::cli {
namespace {

using json::Json;
using ::testing::HasSubstr;

TEST(ToYaml, ReadsBackAsTheSameValue) {
  const Json value = {
      {"text",
       {"plain",  "two words", "true",       "No",   "null", "~",  "",       "1",     "1e3",
        "0x1f",   "-",         "- a",        "a: b", "a #b", "#",  "*x",     "&x",    "!t",
        "%",      "@",         "`",          "'",    "\"",   "\\", "a\nb\n", "\ttab", " lead",
        "trail ", "é",         "2026-01-02", "1:30", "=",    "<<", "{a}",    "[a]"}},
      {"numbers", {0, -1, 1.5, 1e300, 9007199254740993}},
      {"others", {nullptr, true, false, Json::object(), Json::array()}},
      {"deep", {{{"a", {{"b", {1, {{"c", "d"}}}}}}, {{"x", {{"y", nullptr}}}}}}},
      {"lists", {{1, 2}, {{3}}, Json::array()}},
      {"odd key: #", {{"true", 1}, {"", 2}}},
  };
  const auto back = json::ParseYaml(ToYaml(value));
  ASSERT_TRUE(back) << back.error().message << "\n" << ToYaml(value);
  EXPECT_EQ(back->front(), value) << ToYaml(value);
}

TEST(ToYaml, LooksAsPeopleWriteIt) {
  EXPECT_EQ(ToYaml({{"kind", "Pod"}, {"list", {{{"name", "a"}, {"value", "1"}}, {{"name", "b"}}}}}),
            "kind: Pod\nlist:\n- name: a\n  value: \"1\"\n- name: b\n");
}

TEST(Progress, IsOneLine) {
  api::Progress progress;
  progress.step = 430;
  EXPECT_EQ(Describe(progress, std::nullopt), "step 430");
  EXPECT_THAT(Bar(progress, std::nullopt, 200), HasSubstr("[>                       ]   0%"));
  progress.total_steps = 1000;
  progress.percent = 43;
  progress.epoch = 3;
  progress.loss = 0.12344;
  progress.samples_per_second = 5120.4;
  progress.eta_seconds = 21;
  EXPECT_EQ(Describe(progress, 15),
            "step 430/1000  epoch 3/15  loss 0.1234  5120 samples/s  0:21 left");
  EXPECT_EQ(Bar(progress, 15, 46), "[==========>             ]  43%  step 430/1000");
  progress.eta_seconds = 7'325;
  EXPECT_THAT(Describe(progress, std::nullopt), HasSubstr("epoch 3  "));
  EXPECT_THAT(Describe(progress, std::nullopt), HasSubstr("2:02:05 left"));
  progress.percent = 100;
  EXPECT_THAT(Bar(progress, std::nullopt, 200), HasSubstr("[========================] 100%"));
}

TEST(Nearest, IsWhatWasMostLikelyMeant) {
  const std::vector<std::string> names = {"bert", "mnist", "mnist-2"};
  EXPECT_EQ(Nearest("mnsit", names), "mnist");
  EXPECT_EQ(Nearest("mnist-3", names), "mnist-2");
  EXPECT_EQ(Nearest("llama", names), std::nullopt);
  EXPECT_EQ(Nearest("x", names), std::nullopt);
}

struct BadFile {
  const char* text;
  const char* says;
};

TEST(Manifest, ErrorsNameFileAndPlace) {
  for (const auto& [text, says] :
       {BadFile{"a: [", "f: line 1"}, BadFile{"", "f: has no DDPJob"},
        BadFile{"kind: DDPJob\nmetadata: {name: a}\n---\nkind: DDPJob\nmetadata: {name: b}\n",
                "f: has more than one DDPJob (DDPJob/a and DDPJob/b)"},
        BadFile{"kind: DDPJob\n", "f: apiVersion: must be ddpjob.dev/v1alpha1"}}) {
    const auto manifest = ReadManifest(text, "f");
    ASSERT_FALSE(manifest) << text;
    EXPECT_EQ(manifest.error().exit_code, kExitInvalid);
    EXPECT_THAT(manifest.error().lines.front(), HasSubstr(says));
  }
}

TEST(Manifest, OtherDocumentsAreListed) {
  const auto manifest = ReadManifest(
      "kind: PersistentVolumeClaim\nmetadata: {name: c}\n---\n"
      "apiVersion: ddpjob.dev/v1alpha1\nkind: DDPJob\nmetadata: {name: a}\n"
      "spec: {replicas: 1, template: {spec: {containers: [{name: w}]}}}\n",
      "f");
  ASSERT_TRUE(manifest) << manifest.error().lines.front();
  EXPECT_EQ(manifest->others, std::vector<std::string>{"PersistentVolumeClaim/c"});
}

}  // namespace
}  // namespace ddp::cli
