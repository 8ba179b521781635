#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "operator/cli/exit_codes.h"
#include "operator/cli/manifest.h"
#include "operator/cli/progress.h"
#include "operator/cli/progress_puller.h"
#include "operator/cli/yaml_writer.h"
#include "operator/kube/fake_server.h"

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

TEST(Progress, IsReadFromWhatRankZeroSays) {
  const auto progress = ParseProgress(
      R"({"step":430,"totalSteps":1000,"epoch":3,"epochs":15,"loss":0.12344,
          "samplesPerSecond":5120.4,"etaSeconds":21.7,"ranks":[]})");
  ASSERT_TRUE(progress);
  EXPECT_EQ(Describe(*progress),
            "step 430/1000  epoch 3/15  loss 0.1234  5120 samples/s  0:21 left");
  EXPECT_EQ(Bar(*progress, 46), "[==========>             ]  43%  step 430/1000");
}

TEST(Progress, ToleratesWhatIsMissingOrOdd) {
  EXPECT_FALSE(ParseProgress("not json"));
  EXPECT_FALSE(ParseProgress("[]"));
  EXPECT_FALSE(ParseProgress("{}"));
  const auto odd = ParseProgress(R"({"step":-5,"loss":"x","etaSeconds":1e308})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->step, 0);
  EXPECT_THAT(Describe(*odd), HasSubstr("8760:00:00 left"));
  EXPECT_THAT(Bar(*odd, 200), HasSubstr("[>                       ]   0%"));
  const auto done = ParseProgress(R"({"step":12,"totalSteps":10})");
  EXPECT_THAT(Bar(*done, 200), HasSubstr("[========================] 100%"));
}

bool Readable(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, 10'000) == 1;
}

TEST(ProgressPuller, TellsWhenThereIsNews) {
  std::atomic<int> step = 0;
  kube::FakeServer server([&step](kube::FakeConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      EXPECT_EQ(request->target, "/progress");
      connection.Reply(200, R"({"step":)" + std::to_string(++step) + "}");
    }
  });
  ProgressPuller puller;
  puller.Watch(std::stoi(server.url().substr(server.url().rfind(':') + 1)));
  ASSERT_TRUE(Readable(puller.fd()));
  const auto first = puller.Take();
  ASSERT_TRUE(first);
  EXPECT_GE(first->step, 1);
  ASSERT_TRUE(Readable(puller.fd()));
  EXPECT_GT(puller.Take()->step, first->step);
  puller.Watch(1);  // nobody there: no news, no harm
  EXPECT_FALSE(puller.Take());
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
