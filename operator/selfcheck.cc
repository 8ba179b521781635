#include "operator/selfcheck.h"

#include <fmt/format.h>

#include <thread>

#include "operator/json/json.h"
#include "operator/kube/lease.h"

namespace ddp {
namespace {

using json::Json;

struct Right {
  const char* group;
  const char* resource;  // with its subresource
  std::vector<const char*> verbs;
  bool of_cluster = false;  // an operator of one namespace does without
};

// Those of manifests/operator/rbac.yaml: the chart's test compares the two.
const std::vector<Right>& Rights() {
  static const std::vector<Right> rights = {
      {"ddpjob.dev", "ddpjobs", {"list", "watch", "delete"}},
      {"ddpjob.dev", "ddpjobs/status", {"update"}},
      {"", "pods", {"get", "list", "watch", "create", "delete", "deletecollection"}},
      {"", "services", {"get", "list", "watch", "create"}},
      {"", "persistentvolumeclaims", {"get", "create"}},
      {"networking.k8s.io", "networkpolicies", {"get", "create"}},
      {"scheduling.k8s.io", "podgroups", {"get", "create", "deletecollection"}},
      {"", "nodes", {"get"}, true},
      {"events.k8s.io", "events", {"create", "patch"}},
  };
  return rights;
}

Finding CheckResource(kube::Client& client, const std::string& name_space) {
  const kube::Resource jobs{"ddpjob.dev", "v1alpha1", "ddpjobs", "DDPJob"};
  Finding finding{"DDPJobs are served", ""};
  kube::ListOptions one;
  one.limit = 1;
  if (auto page = client.List(jobs, name_space, one); !page) {
    finding.problem = page.error().http == 404
                          ? "the resource is not there: install the CRD (crds.enabled, or kubectl "
                            "apply -f manifests/crd)"
                          : page.error().message;
  }
  return finding;
}

Finding CheckRight(kube::Client& client, const std::string& name_space, const Right& right,
                   const std::string& verb) {
  const std::string resource = right.resource;
  const size_t slash = resource.find('/');
  Json asked = {{"group", right.group}, {"resource", resource.substr(0, slash)}, {"verb", verb}};
  if (slash != std::string::npos) {
    asked["subresource"] = resource.substr(slash + 1);
  }
  if (!name_space.empty()) {
    asked["namespace"] = name_space;
  }
  Finding finding{
      fmt::format("may {} {}{}{}", verb, resource, *right.group == '\0' ? "" : ".", right.group),
      ""};
  const kube::Resource reviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                               "SelfSubjectAccessReview"};
  auto answer = client.Create(reviews, "",
                              {{"apiVersion", reviews.ApiVersion()},
                               {"kind", reviews.kind},
                               {"spec", {{"resourceAttributes", std::move(asked)}}}});
  if (!answer) {
    finding.problem = answer.error().message;
  } else if (!json::GetBool(*answer, {"status", "allowed"})) {
    finding.problem = fmt::format(
        "the account lacks this right {}: compare its role with the one of this version",
        name_space.empty() ? "in all namespaces" : "in the namespace " + name_space);
  }
  return finding;
}

// Why nobody acts; empty when somebody does.
std::string LeaseProblem(kube::LeaseClient& lease) {
  const auto record = lease.Get(std::chrono::seconds(5));
  if (!record) {
    return record.error().http == 404 ? "no operator has ever held it" : record.error().message;
  }
  if (record->holder.empty()) {
    return "it is free: no operator runs";
  }
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(base::SystemClock().Now() -
                                                                    record->renew_time);
  if (age > 2 * record->duration) {
    return fmt::format("{} has not renewed it for {} s: no operator runs", record->holder,
                       age.count());
  }
  return "";
}

Finding CheckLease(kube::Client& client, const SelfCheckOptions& options) {
  const auto lease = kube::MakeLeaseClient(client, options.lease_namespace, options.lease_name);
  Finding finding{
      fmt::format("an operator holds the lease {}/{}", options.lease_namespace, options.lease_name),
      ""};
  const auto deadline = base::SystemClock().Steady() + options.lease_deadline;
  while (true) {
    finding.problem = LeaseProblem(*lease);
    if (finding.problem.empty() || base::SystemClock().Steady() >= deadline) {
      return finding;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

}  // namespace

std::vector<Finding> SelfCheck(kube::Client client, const SelfCheckOptions& options) {
  std::vector<Finding> findings = {CheckResource(client, options.name_space)};
  for (const Right& right : Rights()) {
    if (right.of_cluster && !options.name_space.empty()) {
      continue;
    }
    for (const char* verb : right.verbs) {
      findings.push_back(CheckRight(client, options.name_space, right, verb));
    }
  }
  findings.push_back(CheckLease(client, options));
  return findings;
}

}  // namespace ddp
