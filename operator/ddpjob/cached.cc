#include "operator/ddpjob/cached.h"

#include "operator/api/validate.h"

namespace ddp::job {

using json::Json;

const kube::Resource& JobResource() {
  static const kube::Resource jobs{api::kGroup, api::kVersion, api::kPlural, api::kKind};
  return jobs;
}

const kube::Resource& PodResource() {
  static const kube::Resource pods{"", "v1", "pods", "Pod"};
  return pods;
}

const kube::Resource& ServiceResource() {
  static const kube::Resource services{"", "v1", "services", "Service"};
  return services;
}

kube::Selection ChildSelection() { return {api::kJobUidLabel, ""}; }

std::optional<CachedJob> ReadJob(const Json& object) {
  CachedJob cached;
  auto parsed = api::ParseJob(object);
  if (parsed) {
    cached.job = *std::move(parsed);
    cached.problems = api::Validate(cached.job);
    return cached;
  }
  if (!object.is_object()) {
    return std::nullopt;
  }
  cached.problems = parsed.error();
  // The same object with the least possible spec: its metadata and status are still needed.
  Json skeleton = {{"apiVersion", api::kApiVersion},
                   {"kind", api::kKind},
                   {"metadata", object.value("metadata", Json::object())},
                   {"spec", {{"replicas", 0}, {"template", Json::object()}}},
                   {"status", object.value("status", Json::object())}};
  auto bare = api::ParseJob(skeleton);
  if (!bare) {
    return std::nullopt;  // not even a name: nothing that could be reported on
  }
  cached.job = *std::move(bare);
  return cached;
}

std::optional<Owner> ReadOwner(const Json& object) {
  const Json* owners = json::Find(object, {"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) {
    return std::nullopt;
  }
  for (const Json& owner : *owners) {
    if (json::GetBool(owner, {"controller"}) && json::GetString(owner, {"kind"}) == api::kKind &&
        json::GetString(owner, {"apiVersion"}).starts_with(std::string(api::kGroup) + "/")) {
      return Owner{json::GetString(owner, {"name"}), json::GetString(owner, {"uid"})};
    }
  }
  return std::nullopt;
}

std::optional<CachedPod> ReadCachedPod(const Json& object) {
  auto owner = ReadOwner(object);
  auto record = ReadPod(object);
  if (!owner || !record) {
    return std::nullopt;
  }
  return CachedPod{*std::move(record), json::GetString(object, {"metadata", "namespace"}),
                   *std::move(owner)};
}

std::optional<CachedService> ReadCachedService(const Json& object) {
  auto owner = ReadOwner(object);
  if (!owner) {
    return std::nullopt;
  }
  return CachedService{json::GetString(object, {"metadata", "name"}),
                       json::GetString(object, {"metadata", "uid"}),
                       json::GetString(object, {"metadata", "namespace"}), *std::move(owner)};
}

std::string KeyOf(const std::string& name_space, const std::string& name) {
  return name_space + "/" + name;
}

}  // namespace ddp::job
