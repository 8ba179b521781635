#include "runtime/launch/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

namespace ddp::rt::launch {
namespace {

// Ranks of two starts must not meet: ddp-worker compares this text when ranks connect.
std::string JobUid(const Options& options, const Meeting& meeting, const Variables& inherited) {
  const auto given = inherited.find("DDP_JOB_UID");
  std::string uid =
      given != inherited.end() && !given->second.empty() ? given->second : options.run_id;
  return meeting.restart == 0 ? uid : fmt::format("{}/{}", uid, meeting.restart);
}

}  // namespace

Variables OwnEnvironment() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (const size_t equals = text.find('='); equals != std::string_view::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

Variables RankEnvironment(const Options& options, const Meeting& meeting, int local_rank,
                          Variables inherited) {
  const auto number = [](int value) { return std::to_string(value); };
  const int rank = options.node_rank * options.processes + local_rank;
  const std::string uid = JobUid(options, meeting, inherited);
  const Variables own = {
      {"RANK", number(rank)},
      {"LOCAL_RANK", number(local_rank)},
      {"WORLD_SIZE", number(options.world_size())},
      {"LOCAL_WORLD_SIZE", number(options.processes)},
      {"GROUP_RANK", number(options.node_rank)},
      {"GROUP_WORLD_SIZE", number(options.nodes)},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", number(rank)},
      {"ROLE_WORLD_SIZE", number(options.world_size())},
      {"NODE_RANK", number(options.node_rank)},
      {"MASTER_ADDR", meeting.address},
      {"MASTER_PORT", number(meeting.port)},
      {"TORCHELASTIC_RUN_ID", options.run_id.empty() ? uid : options.run_id},
      {"TORCHELASTIC_RESTART_COUNT", number(meeting.restart)},
      {"TORCHELASTIC_MAX_RESTARTS", number(options.max_restarts)},
      // Rank 0 hosts the store itself: there is no agent that does.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"DDP_JOB_UID", uid},
  };
  for (const auto& [name, value] : own) {
    inherited[name] = value;
  }
  if (options.processes > 1) {
    inherited.try_emplace("OMP_NUM_THREADS", "1");
  }
  return inherited;
}

}  // namespace ddp::rt::launch
