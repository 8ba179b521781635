// Linked last, so that it runs last.
#include "tests/integration/scenario.h"

namespace ddp::integration {
namespace {

// The last word, after all the tests above: the manifests give the operator exactly what it needs.
TEST(Rights, OfTheManifestsSufficeAndAreAllUsed) {
  std::set<std::string> used;
  Cluster& cluster = Cluster::Get();
  for (const auto& request : cluster.OperatorRequests()) {
    if (cluster.WasRestarting(request)) {
      continue;
    }
    EXPECT_NE(request.code, 403) << request.verb << " " << request.resource << " "
                                 << request.name_space << "/" << request.name;
    used.insert(request.verb + " " + request.resource);
  }
  // Those of PodGroups are used where the API server has them: tests/gang.
  for (const char* expected : {"list ddpjobs",
                               "watch ddpjobs",
                               "update ddpjobs/status",
                               "delete ddpjobs",
                               "list pods",
                               "watch pods",
                               "create pods",
                               "delete pods",
                               "deletecollection pods",
                               "list services",
                               "watch services",
                               "create services",
                               "get services",
                               "create persistentvolumeclaims",
                               "get persistentvolumeclaims",
                               "create networkpolicies",
                               "get networkpolicies",
                               "get nodes",
                               "create events",
                               "create leases",
                               "get leases",
                               "update leases"}) {
    EXPECT_TRUE(used.contains(expected)) << expected << " was never used";
  }
}

}  // namespace
}  // namespace ddp::integration
