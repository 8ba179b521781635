// Where the pods of a job go: what spec.scheduling and hostNetwork put into a pod. Pure.
#pragma once

#include "operator/api/types.h"

namespace ddp::job {

// Adds to `pod`, a pod that has its labels: pods on the host's network stay apart and keep the
// cluster's DNS; pods of a job stay together by topologyKey; Kueue's and Kubernetes' own groups.
void Place(const api::DDPJob& job, int attempt, json::Json& pod);

}  // namespace ddp::job
