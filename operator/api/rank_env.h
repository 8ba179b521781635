// The environment of one pod, in the order of the documentation's table. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "operator/api/types.h"

namespace ddp::api {

using EnvList = std::vector<std::pair<std::string, std::string>>;

// What differs between bodies; the defaults are Kubernetes'.
struct RankPlace {
  std::string master_addr;     // "": MasterAddress()
  int master_port = 0;         // 0: spec.rendezvous.port
  int progress_port = 0;       // 0: spec.progress.port
  std::string checkpoint_dir;  // "": <path>/<namespace>-<job>, when spec.checkpoint is there
  std::string data_dir;        // "": where the worker mounts the volume `data`, if it does
};

// `replica` is which pod of the attempt. With one process a pod that is its rank; with more the pod
// gets what is the same for all its ranks, and its launcher sets the rest.
EnvList RankEnv(const DDPJob& job, int attempt, int replica, const RankPlace& place = {});

}  // namespace ddp::api
