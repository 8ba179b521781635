#include "operator/api/pod_template.h"

#include <gtest/gtest.h>

namespace ddp::api {
namespace {

using json::Json;

Json Worker(const char* member, Json value) {
  return {{"spec", {{"containers", {{{"name", "worker"}, {member, std::move(value)}}}}}}};
}

TEST(PodTemplateTest, GivesBackWhatWasGivenAndComparesByIt) {
  const Json given = Worker("env", {{{"name", "A"}, {"value", "ä\n\"\\"}}, {{"name", "B"}}});
  const PodTemplate kept(given);
  EXPECT_EQ(kept.Parsed(), given);
  EXPECT_EQ(kept, PodTemplate(given));
  EXPECT_FALSE(kept == PodTemplate(Worker("env", Json::array())));
  EXPECT_EQ(PodTemplate(), PodTemplate());
}

TEST(PodTemplateTest, NotesWhatIsAskedOften) {
  Json given = Worker("volumeMounts", {{{"name", "other"}, {"mountPath", "/o"}},
                                       {{"name", "data"}, {"mountPath", "/d"}}});
  given["spec"]["hostNetwork"] = true;
  given["spec"]["priorityClassName"] = "high";
  given["spec"]["terminationGracePeriodSeconds"] = 7;
  const PodTemplate kept(given);
  EXPECT_TRUE(kept.host_network());
  EXPECT_EQ(kept.priority_class(), "high");
  EXPECT_EQ(kept.grace_period_seconds(), 7);
  EXPECT_EQ(kept.data_mount_path(), "/d");
}

TEST(PodTemplateTest, KnowsNothingOfAnEmptyOrOddOne) {
  for (const Json& odd : {Json(), Json(3), Json{{"spec", 3}}, Json{{"spec", {{"containers", 3}}}},
                          Worker("resources", 3), Worker("volumeMounts", "x")}) {
    const PodTemplate kept(odd);
    EXPECT_EQ(kept.Parsed(), odd);
    EXPECT_FALSE(kept.host_network());
    EXPECT_EQ(kept.gpu_limit(), 0);
    EXPECT_FALSE(kept.grace_period_seconds());
    EXPECT_EQ(kept.priority_class() + kept.data_mount_path(), "");
  }
}

TEST(PodTemplateTest, CountsTheGpusOfTheWorker) {
  const auto limit = [](Json limits) {
    return PodTemplate(Worker("resources", {{"limits", std::move(limits)}})).gpu_limit();
  };
  EXPECT_EQ(limit({{"nvidia.com/gpu", 8}, {"cpu", "64"}}), 8);
  EXPECT_EQ(limit({{"amd.com/gpu", "4"}}), 4);
  EXPECT_EQ(limit({{"cpu", "64"}}), 0);
  EXPECT_EQ(limit(Json::array()), 0);
}

}  // namespace
}  // namespace ddp::api
