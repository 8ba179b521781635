// What the operator keeps in memory of the API server's objects: small typed records, made once
// when an object arrives. The resources they come from are named here too. Plain data, pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/ddpjob/observed.h"
#include "operator/kube/client.h"

namespace ddp::job {

const kube::Resource& JobResource();
const kube::Resource& PodResource();
const kube::Resource& ServiceResource();
// Children of any job: pods and services with our label.
kube::Selection ChildSelection();

// A job as stored; `problems` when the operator can't read it (the CRD's schema should not have let
// it in): then job has metadata and status, and no spec.
struct CachedJob {
  api::DDPJob job;
  std::vector<api::Problem> problems;
};
std::optional<CachedJob> ReadJob(const json::Json& object);

// Who owns an object: its controller, if that is a DDPJob.
struct Owner {
  std::string name;
  std::string uid;
};
std::optional<Owner> ReadOwner(const json::Json& object);

struct CachedPod {
  PodRecord record;
  std::string name_space;
  Owner owner;
};
std::optional<CachedPod> ReadCachedPod(const json::Json& object);

struct CachedService {
  std::string name;
  std::string uid;
  std::string name_space;
  Owner owner;
};
std::optional<CachedService> ReadCachedService(const json::Json& object);

// The work queue's key of a job: "namespace/name".
std::string KeyOf(const std::string& name_space, const std::string& name);

}  // namespace ddp::job
