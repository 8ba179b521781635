#include "runtime/base/env.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/base/error.h"

namespace ddp::rt {
namespace {

EnvReader From(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

TEST(RankEnv, IsOneRankWithoutVariables) {
  const RankEnv env = ReadRankEnv(From({}));
  EXPECT_EQ(env.rank, 0);
  EXPECT_EQ(env.world_size, 1);
  EXPECT_FALSE(env.progress_port);
}

TEST(RankEnv, ReadsWhatTheOperatorSets) {
  const RankEnv env = ReadRankEnv(From({{"RANK", "1"},
                                        {"WORLD_SIZE", "2"},
                                        {"LOCAL_RANK", "0"},
                                        {"MASTER_ADDR", "mnist-1-0.mnist.default.svc"},
                                        {"MASTER_PORT", "29500"},
                                        {"DDP_JOB_UID", "u"},
                                        {"DDP_ATTEMPT", "3"},
                                        {"DDP_CHECKPOINT_DIR", "/c/default-mnist"},
                                        {"DDP_PROGRESS_PORT", "9410"}}));
  EXPECT_EQ(env.rank, 1);
  EXPECT_EQ(env.master_addr, "mnist-1-0.mnist.default.svc");
  EXPECT_EQ(env.master_port, 29500);
  EXPECT_EQ(env.attempt, 3);
  EXPECT_EQ(env.progress_port, 9410);
}

TEST(RankEnv, ErrorsNameTheVariable) {
  struct Bad {
    std::map<std::string, std::string> values;
    const char* says;
  };
  for (const auto& [values, says] :
       {Bad{{{"RANK", "0"}}, "WORLD_SIZE is not set"},
        Bad{{{"WORLD_SIZE", "2"}}, "RANK is not set"},
        Bad{{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2 must be less than WORLD_SIZE=2"},
        Bad{{{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK='x' must be a whole number"},
        Bad{{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}, "MASTER_ADDR is not set"},
        Bad{{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}, {"MASTER_ADDR", "a"}},
            "MASTER_PORT='70000'"}}) {
    try {
      ReadRankEnv(From(values));
      ADD_FAILURE() << "accepted, wanted: " << says;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kConfig);
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace ddp::rt
