// What a parsed job's values must obey: names that fit, ports, the fields of the template that the
// operator owns. The same checks as the CRD's rules, and those that CEL can't do. Pure.
#pragma once

#include <vector>

#include "operator/api/parse.h"
#include "operator/api/types.h"

namespace ddp::api {

// Empty when the job can run. The order is that of the manifest.
std::vector<Problem> Validate(const DDPJob& job);

// The container that trains: the one named `worker`, else the first. Null when there is none.
const Json* FindWorker(const Json& pod_template);

}  // namespace ddp::api
