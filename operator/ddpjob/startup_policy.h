// Why an attempt does not get going: the scheduler's or the kubelet's own words. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

struct StartupTrouble {
  std::string reason;   // Unschedulable, ImagePullBackOff, …
  std::string message;  // names the pod and how many share the trouble
  bool operator==(const StartupTrouble&) const = default;
};

// Of the pods that have not started, the first one's trouble; nothing while all is well.
// `processes`: ranks of each pod.
std::optional<StartupTrouble> FindStartupTrouble(const std::vector<const PodRecord*>& pods,
                                                 int processes = 1);

}  // namespace ddp::job
