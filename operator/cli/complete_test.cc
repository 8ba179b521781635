#include "operator/cli/complete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class CompleteTest : public ::testing::Test {
 protected:
  Completion At(const std::vector<std::string>& words) {
    return Complete(words, {[this](const ClusterOptions& options) {
                              asked_ = options;
                              return std::vector<std::string>{"bert", "mnist", "mnist-2"};
                            },
                            [](const ClusterOptions& /*options*/) {
                              return std::vector<std::string>{"default", "team"};
                            },
                            [](const ClusterOptions& /*options*/) {
                              return std::vector<std::string>{"prod", "test"};
                            }});
  }
  ClusterOptions asked_;
};

TEST_F(CompleteTest, Commands) {
  EXPECT_THAT(At({}).candidates, Contains("status"));
  EXPECT_THAT(At({""}).candidates, Contains("completion"));
  EXPECT_THAT(At({"re"}).candidates, ElementsAre("render", "resume", "restart"));
  EXPECT_THAT(At({"__"}).candidates, IsEmpty());
  EXPECT_THAT(At({"nonsense"}).candidates, IsEmpty());
}

TEST_F(CompleteTest, Jobs) {
  EXPECT_THAT(At({"status", ""}).candidates, ElementsAre("bert", "mnist", "mnist-2"));
  EXPECT_THAT(At({"logs", "-f", "mn"}).candidates, ElementsAre("mnist", "mnist-2"));
  EXPECT_THAT(At({"restart", "-n", "team", "--context=prod", "--kubeconfig", "k", "b"}).candidates,
              ElementsAre("bert"));
  EXPECT_EQ(asked_.name_space, "team");
  EXPECT_EQ(asked_.context, "prod");
  EXPECT_EQ(asked_.kubeconfig, "k");
  EXPECT_THAT(At({"status", "mnist", ""}).candidates, IsEmpty()) << "one job is enough";
}

TEST_F(CompleteTest, Options) {
  EXPECT_THAT(At({"logs", "mnist", "--"}).candidates, Contains("--attempt"));
  EXPECT_THAT(At({"logs", "mnist", "--"}).candidates, Not(Contains("--wait")));
  EXPECT_THAT(At({"logs", "mnist", "--fo"}).candidates, ElementsAre("--follow"));
}

TEST_F(CompleteTest, Values) {
  EXPECT_THAT(At({"status", "-o", ""}).candidates, ElementsAre("text", "json", "yaml"));
  EXPECT_THAT(At({"render", "-f", "x", "--output", "y"}).candidates, ElementsAre("yaml"));
  EXPECT_THAT(At({"status", "mnist", "--output=j"}).candidates, ElementsAre("--output=json"));
  EXPECT_THAT(At({"status", "mnist", "--wait=Ru"}).candidates, ElementsAre("--wait=Running"));
  EXPECT_THAT(At({"status", "-n", "t"}).candidates, ElementsAre("team"));
  EXPECT_THAT(At({"status", "--context", ""}).candidates, ElementsAre("prod", "test"));
  EXPECT_THAT(At({"completion", ""}).candidates, ElementsAre("bash", "zsh"));
  EXPECT_THAT(At({"logs", "mnist", "--tail", ""}).candidates, IsEmpty());
}

TEST_F(CompleteTest, Files) {
  EXPECT_EQ(At({"run", "-f", ""}), (Completion{{}, true}));
  EXPECT_EQ(At({"status", "--kubeconfig", "x"}), (Completion{{}, true}));
  EXPECT_EQ(At({"run", ""}), Completion{});
}

}  // namespace
}  // namespace ddp::cli
