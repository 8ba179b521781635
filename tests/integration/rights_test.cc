// Linked last, so that it runs last.
#include "tests/integration/scenario.h"

namespace ddp::integration {
namespace {

using json::Json;

// "verb resource", as far as a role grants it.
void Grant(const Json& role, std::set<std::string>& granted) {
  for (const Json& rule : role["rules"]) {
    for (const Json& resource : rule["resources"]) {
      for (const Json& verb : rule["verbs"]) {
        granted.insert(verb.get<std::string>() + " " + resource.get<std::string>());
      }
    }
  }
}

std::set<std::string> GrantedRights(kube::Client& admin) {
  std::set<std::string> granted;
  const kube::Resource cluster_roles{"rbac.authorization.k8s.io", "v1", "clusterroles",
                                     "ClusterRole"};
  const kube::Resource roles{"rbac.authorization.k8s.io", "v1", "roles", "Role"};
  for (const auto& role : {admin.Get(cluster_roles, "", "ddp-operator"),
                           admin.Get(roles, "ddp-system", "ddp-operator-lease")}) {
    EXPECT_TRUE(role.has_value()) << role.error().message;
    Grant(role ? *role : Json{{"rules", Json::array()}}, granted);
  }
  return granted;
}

// The last word, after all the tests above: the manifests give the operator exactly what it needs.
TEST(Rights, OfTheManifestsSufficeAndAreAllUsed) {
  Cluster& cluster = Cluster::Get();
  std::set<std::string> unused = GrantedRights(cluster.admin());
  EXPECT_GT(unused.size(), 20U);
  for (const auto& request : cluster.OperatorRequests()) {
    if (cluster.WasRestarting(request)) {
      continue;
    }
    EXPECT_NE(request.code, 403) << request.verb << " " << request.resource << " "
                                 << request.name_space << "/" << request.name;
    unused.erase(request.verb + " " + request.resource);
  }
  // Those of PodGroups are used where the API server has them: tests/gang.
  for (const char* elsewhere :
       {"get podgroups", "create podgroups", "deletecollection podgroups"}) {
    EXPECT_EQ(unused.erase(elsewhere), 1U) << elsewhere;
  }
  for (const std::string& right : unused) {
    ADD_FAILURE() << right << " is granted by manifests/operator, but was never used";
  }
}

}  // namespace
}  // namespace ddp::integration
