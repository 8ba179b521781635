#include "operator/api/rank_env.h"

#include <fmt/format.h>

#include "operator/api/names.h"

namespace ddp::api {
EnvList RankEnv(const DDPJob& job, int attempt, int replica, const RankPlace& place) {
  const auto text = [](auto value) { return fmt::format("{}", value); };
  const std::string self = text(replica);
  const std::string pods = text(job.spec.replicas);
  const std::string address =
      place.master_addr.empty() ? MasterAddress(job.metadata, attempt) : place.master_addr;
  const std::string port =
      text(place.master_port != 0 ? place.master_port : job.spec.rendezvous_port);

  EnvList list;
  const bool one_rank = job.spec.processes_per_replica == 1;
  if (one_rank) {
    list = {{env::kRank, self},          {env::kWorldSize, pods}, {env::kLocalRank, "0"},
            {env::kLocalWorldSize, "1"}, {env::kGroupRank, self}, {env::kGroupWorldSize, pods},
            {env::kRoleName, "default"}, {env::kRoleRank, self},  {env::kRoleWorldSize, pods}};
  }
  list.insert(list.end(), {{env::kMasterAddr, address}, {env::kMasterPort, port}});
  if (one_rank) {
    list.insert(list.end(), {{env::kRunId, job.metadata.uid},
                             {env::kRestartCount, text(job.status.restarts.application)},
                             {env::kMaxRestarts, text(job.spec.restart.max_restarts)}});
  }
  list.insert(list.end(), {{env::kPetNnodes, pods},
                           {env::kPetNprocPerNode, text(job.spec.processes_per_replica)},
                           {env::kPetNodeRank, self},
                           {env::kPetMasterAddr, address},
                           {env::kPetMasterPort, port},
                           {env::kNodeRank, self},
                           {env::kJobName, job.metadata.name},
                           {env::kJobUid, job.metadata.uid},
                           {env::kAttempt, text(attempt)}});
  if (job.spec.checkpoint) {
    list.emplace_back(env::kCheckpointDir,
                      !place.checkpoint_dir.empty()
                          ? place.checkpoint_dir
                          : fmt::format("{}/{}-{}", job.spec.checkpoint->path,
                                        job.metadata.namespace_name, job.metadata.name));
  }
  list.emplace_back(env::kProgressPort,
                    text(place.progress_port != 0 ? place.progress_port : job.spec.progress.port));
  const std::string data =
      !place.data_dir.empty() ? place.data_dir : job.spec.pod_template.data_mount_path();
  if (!data.empty()) {
    list.emplace_back(env::kDataDir, data);
  }
  return list;
}

}  // namespace ddp::api
