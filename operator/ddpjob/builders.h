// The Kubernetes objects of a job, as JSON ready to be sent. Pure: one (job, attempt, replica), one
// pod.
#pragma once

#include "operator/api/types.h"

namespace ddp::job {

json::Json BuildPod(const api::DDPJob& job, int attempt, int replica);
// The same, for who makes several: `pod_template` is the job's, parsed.
json::Json BuildPod(const api::DDPJob& job, const json::Json& pod_template, int attempt,
                    int replica);
json::Json BuildService(const api::DDPJob& job);
// From spec.checkpoint.claimTemplate. Owned by the job only where it goes with the job.
json::Json BuildClaim(const api::DDPJob& job);
// Lets in: all from the job's own pods; from `namespaces`, the progress ports.
json::Json BuildNetworkPolicy(const api::DDPJob& job, const std::vector<std::string>& namespaces);
// Kubernetes' own; `version` of scheduling.k8s.io.
json::Json BuildPodGroup(const api::DDPJob& job, int attempt, const std::string& version);

}  // namespace ddp::job
