// For tests: is an object what the CRD's schema describes? The API server silently drops what a
// schema does not name, so a status field without a schema would be lost at the first write.
#pragma once

#include <string>
#include <vector>

#include "operator/json/json.h"

namespace ddp::job::testing {

// One sentence a violation, unknown fields included; empty when the object is fine. Reads
// manifests/crd/ddpjob.yaml once.
std::vector<std::string> SchemaErrors(const json::Json& ddpjob);

}  // namespace ddp::job::testing
