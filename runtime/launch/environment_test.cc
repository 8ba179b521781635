#include "runtime/launch/environment.h"

#include <gtest/gtest.h>

#include "runtime/base/env.h"

namespace ddp::rt::launch {
namespace {

Options TwoNodesOfThree() {
  Options options;
  options.processes = 3;
  options.nodes = 2;
  options.node_rank = 1;
  options.run_id = "run";
  options.max_restarts = 4;
  return options;
}

TEST(LaunchEnvironment, IsTorchruns) {
  const Variables v = RankEnvironment(TwoNodesOfThree(), {"host", 29500, 2}, 1, {{"HOME", "/h"}});
  const Variables wanted = {{"HOME", "/h"},
                            {"RANK", "4"},
                            {"LOCAL_RANK", "1"},
                            {"WORLD_SIZE", "6"},
                            {"LOCAL_WORLD_SIZE", "3"},
                            {"GROUP_RANK", "1"},
                            {"GROUP_WORLD_SIZE", "2"},
                            {"ROLE_NAME", "default"},
                            {"ROLE_RANK", "4"},
                            {"ROLE_WORLD_SIZE", "6"},
                            {"NODE_RANK", "1"},
                            {"MASTER_ADDR", "host"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "run"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"},
                            {"TORCHELASTIC_MAX_RESTARTS", "4"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                            {"OMP_NUM_THREADS", "1"},
                            {"DDP_JOB_UID", "run/2"}};
  EXPECT_EQ(v, wanted);
}

TEST(LaunchEnvironment, ReplacesWhatItOwnsAndKeepsTheRest) {
  const Variables v = RankEnvironment(
      TwoNodesOfThree(), {"host", 29500, 0}, 0,
      {{"RANK", "77"}, {"OMP_NUM_THREADS", "8"}, {"DDP_JOB_UID", "uid"}, {"DDP_ATTEMPT", "3"}});
  EXPECT_EQ(v.at("RANK"), "3");
  EXPECT_EQ(v.at("OMP_NUM_THREADS"), "8");
  EXPECT_EQ(v.at("DDP_JOB_UID"), "uid") << "the operator's";
  EXPECT_EQ(v.at("DDP_ATTEMPT"), "3");
}

TEST(LaunchEnvironment, OneRankKeepsItsThreads) {
  Options options;
  EXPECT_FALSE(RankEnvironment(options, {"h", 1, 0}, 0, {}).contains("OMP_NUM_THREADS"));
}

TEST(LaunchEnvironment, IsUnderstoodByTheRuntime) {
  const Variables v = RankEnvironment(TwoNodesOfThree(), {"host", 29500, 0}, 2, {});
  const RankEnv env = ReadRankEnv([&](const char* name) -> std::optional<std::string> {
    const auto found = v.find(name);
    return found == v.end() ? std::nullopt : std::optional(found->second);
  });
  EXPECT_EQ(env.rank, 5);
  EXPECT_EQ(env.world_size, 6);
  EXPECT_EQ(env.local_rank, 2);
  EXPECT_EQ(env.local_world_size, 3);
  EXPECT_EQ(env.master_addr, "host");
  EXPECT_EQ(env.master_port, 29500);
  EXPECT_EQ(env.job_uid, "run");
}

}  // namespace
}  // namespace ddp::rt::launch
