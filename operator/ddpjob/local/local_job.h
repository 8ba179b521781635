// What a job's pods are on one machine: a command, an environment, folders and ports instead of an
// image, volumes and a network. Pure, but for looking up programs and free ports.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/parse.h"
#include "operator/api/rank_env.h"
#include "operator/ddpjob/local/rank_process.h"
#include "operator/ddpjob/local/state_folder.h"

namespace ddp::job {

struct LocalJob {
  api::DDPJob job;
  std::vector<std::string> words;  // command and args, as written
  api::EnvList environment;        // of the worker container, as written
  std::optional<int> written_rendezvous_port;
  std::optional<int> written_progress_port;
  bool has_data_volume = false;
  std::vector<std::string> volumes;
  std::vector<std::string> without_effect;  // fields of the manifest that do nothing here
};

// `manifest` is what `job` was parsed from (it tells a default from a written value). Refuses a
// worker without a command: locally there is no image that could have one.
base::Result<LocalJob, std::vector<api::Problem>> PrepareLocal(api::DDPJob job,
                                                               const json::Json& manifest);

// The places of one attempt: ports are new ones each time, so that the last attempt's sockets never
// stand in the way.
struct LocalPorts {
  int rendezvous = 0;
  std::vector<int> progress;  // by rank
};
base::Result<LocalPorts> ChoosePorts(const LocalJob& job);

// Where a program is: a path as it is; `ddp-worker` in `own_folder` first; else by $PATH. kNotFound
// says where it looked.
base::Result<std::string> FindProgram(const std::string& name,
                                      const std::filesystem::path& own_folder,
                                      const std::string& path_variable);

using Variables = std::map<std::string, std::string>;
Variables ProcessVariables();  // of this process

// Everything to start a rank; `inherited` is what the worker's own variables are added to.
base::Result<RankCommand> BuildRankCommand(const LocalJob& job, int attempt, int rank,
                                           const LocalPorts& ports, const StateFolder& folder,
                                           const std::filesystem::path& own_folder,
                                           const Variables& inherited);

}  // namespace ddp::job
