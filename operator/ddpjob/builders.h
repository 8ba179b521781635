// The Kubernetes objects of a job, as JSON ready to be sent. Pure: one (job, attempt, rank), one
// pod.
#pragma once

#include "operator/api/types.h"

namespace ddp::job {

json::Json BuildPod(const api::DDPJob& job, int attempt, int rank);
json::Json BuildService(const api::DDPJob& job);

}  // namespace ddp::job
