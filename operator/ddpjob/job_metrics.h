// Series of each job for dashboards and alerts, made from what is cached when they are asked for:
// nothing is kept for a job that is gone. Pure.
#pragma once

#include <vector>

#include "operator/controller/metrics.h"
#include "operator/controller/store.h"
#include "operator/ddpjob/cached.h"

namespace ddp::job {

// Labels: namespace, job_name (`job` is Prometheus' own), and one of a closed set where a family
// needs it.
std::vector<controller::GaugeFamily> JobMetrics(const controller::Store<CachedJob>& jobs);

}  // namespace ddp::job
