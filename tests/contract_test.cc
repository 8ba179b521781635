// What operator and runtime must agree on, compared: variables and exit codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "operator/api/constants.h"
#include "operator/api/rank_env.h"
#include "runtime/base/env.h"
#include "runtime/base/error.h"

namespace {

namespace api = ddp::api;
namespace rt = ddp::rt;

ddp::api::DDPJob Job() {
  api::DDPJob job;
  job.metadata.name = "mnist";
  job.metadata.uid = "u-1";
  job.spec.replicas = 3;
  job.spec.pod_template =
      api::PodTemplate(ddp::json::Json{{"spec", {{"containers", {{{"name", "worker"}}}}}}});
  job.spec.checkpoint = {.path = "/c", .claim_name = "claim"};
  return job;
}

TEST(Contract, TheRuntimeUnderstandsWhatTheOperatorSets) {
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : api::RankEnv(Job(), 2, 1)) {
    values[name] = value;
  }
  const rt::RankEnv env =
      rt::ReadRankEnv([&values](const char* name) -> std::optional<std::string> {
        const auto it = values.find(name);
        return it == values.end() ? std::nullopt : std::optional(it->second);
      });
  EXPECT_EQ(env.rank, 1);
  EXPECT_EQ(env.world_size, 3);
  EXPECT_EQ(env.local_rank, 0);
  EXPECT_EQ(env.local_world_size, 1);
  EXPECT_EQ(env.master_addr, "mnist-2-0.mnist.default.svc");
  EXPECT_EQ(env.master_port, api::kDefaultRendezvousPort);
  EXPECT_EQ(env.job_uid, "u-1");
  EXPECT_EQ(env.attempt, 2);
  EXPECT_EQ(env.checkpoint_dir, "/c/default-mnist");
  EXPECT_EQ(env.progress_port, api::kDefaultProgressPort);
}

TEST(Contract, TheRuntimeReadsNoVariableThatTheOperatorDoesNotKnow) {
  const std::set<std::string> known(std::begin(api::env::kReserved), std::end(api::env::kReserved));
  (void)rt::ReadRankEnv([&known](const char* name) -> std::optional<std::string> {
    EXPECT_TRUE(known.contains(name)) << name;
    return std::nullopt;
  });
}

TEST(Contract, ExitCodesAreTheSame) {
  const std::pair<api::ExitCode, rt::ExitCode> pairs[] = {
      {api::ExitCode::kOk, rt::ExitCode::kOk},
      {api::ExitCode::kUsage, rt::ExitCode::kUsage},
      {api::ExitCode::kData, rt::ExitCode::kData},
      {api::ExitCode::kNoInput, rt::ExitCode::kNoInput},
      {api::ExitCode::kUnavailable, rt::ExitCode::kUnavailable},
      {api::ExitCode::kSoftware, rt::ExitCode::kSoftware},
      {api::ExitCode::kTempFail, rt::ExitCode::kTempFail},
      {api::ExitCode::kConfig, rt::ExitCode::kConfig}};
  for (const auto& [ours, theirs] : pairs) {
    EXPECT_EQ(static_cast<int>(ours), static_cast<int>(theirs));
  }
}

}  // namespace
