#include "operator/ddpjob/kube_extras.h"

#include <fmt/format.h>

#include "operator/ddpjob/builders.h"
#include "operator/ddpjob/cached.h"

namespace ddp::job {
namespace {

using json::Json;
using kube::ApiError;
using kube::ApiResult;

constexpr const char* kSchedulingGroup = "scheduling.k8s.io";
constexpr const char* kPodGroups = "podgroups";

kube::Resource PodGroupResource(const std::string& version) {
  return {kSchedulingGroup, version, kPodGroups, "PodGroup"};
}

// Ours by UID; a claim that outlives jobs has no owner and is known by its label.
bool IsOurs(const api::DDPJob& job, const Json& object) {
  const auto owner = ReadOwner(object);
  if (owner) {
    return owner->uid == job.metadata.uid;
  }
  return json::GetString(object, {"kind"}) == "PersistentVolumeClaim" &&
         json::GetString(object, {"metadata", "labels", api::kJobNameLabel}) == job.metadata.name &&
         !object["metadata"].contains("deletionTimestamp");
}

}  // namespace

ApiResult<Json> CreateOrGetOurs(kube::Client& client, const kube::Resource& resource,
                                const std::string& name_space, const Json& object,
                                const std::function<bool(const Json&)>& is_ours,
                                const std::stop_token& stop) {
  return OursIfTaken(client, resource, name_space, json::GetString(object, {"metadata", "name"}),
                     client.Create(resource, name_space, object, stop), is_ours, stop);
}

ApiResult<Json> OursIfTaken(kube::Client& client, const kube::Resource& resource,
                            const std::string& name_space, const std::string& name,
                            ApiResult<Json> created,
                            const std::function<bool(const Json&)>& is_ours,
                            const std::stop_token& stop) {
  if (created || created.error().code != base::ErrorCode::kAlreadyExists) {
    return created;
  }
  auto there = client.Get(resource, name_space, name, stop);
  if (!there || is_ours(*there)) {
    return there;
  }
  ApiError error;
  error.code = base::ErrorCode::kAlreadyExists;
  error.http = 409;
  error.message =
      fmt::format("{} '{}' exists and does not belong to this job", resource.kind, name);
  return error;
}

ApiResult<ExtraView> KubeExtras::Create(const api::DDPJob& job, Extra extra, int attempt,
                                        const std::stop_token& stop) {
  static const kube::Resource claims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
  static const kube::Resource policies{"networking.k8s.io", "v1", "networkpolicies",
                                       "NetworkPolicy"};
  switch (extra) {
    case Extra::kClaim:
      return Take(job, claims, BuildClaim(job), attempt, stop);
    case Extra::kNetworkPolicy:
      return Take(job, policies, BuildNetworkPolicy(job, namespaces_), attempt, stop);
    case Extra::kPodGroup:
      break;
  }
  return CreatePodGroup(job, attempt, stop);
}

ApiResult<ExtraView> KubeExtras::Take(const api::DDPJob& job, const kube::Resource& resource,
                                      const Json& object, int attempt,
                                      const std::stop_token& stop) {
  const auto made = CreateOrGetOurs(
      client_, resource, job.metadata.namespace_name, object,
      [&job](const Json& there) { return IsOurs(job, there); }, stop);
  if (made) {
    return ExtraView{attempt, ExtraView::State::kThere, ""};
  }
  if (made.error().code == base::ErrorCode::kAlreadyExists) {
    return ExtraView{attempt, ExtraView::State::kForeign, ""};
  }
  return made.error();
}

ApiResult<std::string> KubeExtras::PodGroupVersion(const std::stop_token& stop) {
  std::lock_guard lock(mutex_);
  if (!pod_group_version_.empty()) {
    return pod_group_version_;
  }
  const std::string root = fmt::format("/apis/{}", kSchedulingGroup);
  const auto group = client_.GetPath(root, stop);
  if (!group) {
    return group.error();
  }
  // Newest first, as the server lists them.
  for (const Json& served : group->value("versions", Json::array())) {
    const std::string version = json::GetString(served, {"version"});
    const auto resources = client_.GetPath(fmt::format("{}/{}", root, version), stop);
    if (!resources) {
      return resources.error();
    }
    for (const Json& resource : resources->value("resources", Json::array())) {
      if (json::GetString(resource, {"name"}) == kPodGroups) {
        pod_group_version_ = version;
        return pod_group_version_;
      }
    }
  }
  return std::string();
}

ApiResult<ExtraView> KubeExtras::CreatePodGroup(const api::DDPJob& job, int attempt,
                                                const std::stop_token& stop) {
  const auto version = PodGroupVersion(stop);
  if (!version) {
    return version.error();
  }
  if (version->empty()) {
    return ExtraView{attempt, ExtraView::State::kUnsupported,
                     fmt::format("the API server has no {} in {}", kPodGroups, kSchedulingGroup)};
  }
  const kube::Resource resource = PodGroupResource(*version);
  auto view = Take(job, resource, BuildPodGroup(job, attempt, *version), attempt, stop);
  if (view && view->state == ExtraView::State::kThere && attempt > 1) {
    // Those of older attempts have no use any more.
    const std::string older = fmt::format("{}={},{}!={}", api::kJobUidLabel, job.metadata.uid,
                                          api::kAttemptLabel, attempt);
    const auto deleted =
        client_.DeleteCollection(resource, job.metadata.namespace_name, {older, ""}, {}, stop);
    if (!deleted) {
      return deleted.error();
    }
  }
  return view;
}

}  // namespace ddp::job
