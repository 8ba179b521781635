// `ddp-operator --selfcheck`, which `helm test` runs as a pod with the operator's own account: is
// the DDPJob resource served, has the account every right that the operator uses, and does an
// operator hold the lease and renew it. Blocks the calling thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "operator/kube/client.h"

namespace ddp {

struct SelfCheckOptions {
  std::string name_space;  // "": all
  std::string lease_namespace;
  std::string lease_name;
  // How long to wait for somebody to hold the lease: an operator may be starting just now.
  std::chrono::seconds lease_deadline{30};
};

struct Finding {
  std::string what;
  std::string problem;  // empty: all is well
};

std::vector<Finding> SelfCheck(kube::Client client, const SelfCheckOptions& options);

}  // namespace ddp
