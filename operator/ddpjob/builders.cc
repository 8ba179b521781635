#include "operator/ddpjob/builders.h"

#include <fmt/format.h>

#include "operator/api/names.h"
#include "operator/api/rank_env.h"
#include "operator/api/validate.h"

namespace ddp::job {
namespace {

using api::DDPJob;
using json::Json;

Json OwnedMetadata(const DDPJob& job, const std::string& name,
                   const std::map<std::string, std::string>& labels) {
  return {{"name", name},
          {"namespace", job.metadata.namespace_name},
          {"labels", labels},
          {"ownerReferences",
           {{{"apiVersion", api::kApiVersion},
             {"kind", api::kKind},
             {"name", job.metadata.name},
             {"uid", job.metadata.uid},
             {"controller", true},
             {"blockOwnerDeletion", false}}}}};
}

// The list at `field`, made when it is missing.
Json& List(Json& object, const char* field) {
  Json& list = object[field];
  if (!list.is_array()) {
    list = Json::array();
  }
  return list;
}

// Ours come first, so that the user's own values may refer to them: $(RANK).
void PrependEnv(Json& worker, const api::EnvList& ours) {
  Json merged = Json::array();
  for (const auto& [name, value] : ours) {
    merged.push_back({{"name", name}, {"value", value}});
  }
  for (Json& given : List(worker, "env")) {
    merged.push_back(std::move(given));
  }
  worker["env"] = std::move(merged);
}

void AddPort(Json& worker, const char* name, int port) {
  for (const Json& given : List(worker, "ports")) {
    const bool tcp = json::GetString(given, {"protocol"}, "TCP") == "TCP";
    if (json::GetString(given, {"name"}) == name ||
        (tcp && json::GetInt(given, {"containerPort"}) == port)) {
      return;
    }
  }
  worker["ports"].push_back({{"name", name}, {"containerPort", port}});
}

void AddVolumes(const DDPJob& job, int rank, Json& spec, Json& worker) {
  List(spec, "volumes")
      .push_back({{"name", api::kShmVolume},
                  {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", job.spec.shm_size}}}});
  List(worker, "volumeMounts").push_back({{"name", api::kShmVolume}, {"mountPath", api::kShmPath}});
  const auto& checkpoint = job.spec.checkpoint;
  if (!checkpoint || (rank != 0 && checkpoint->mount == api::CheckpointMount::kRank0)) {
    return;
  }
  spec["volumes"].push_back({{"name", api::kCheckpointVolume},
                             {"persistentVolumeClaim", {{"claimName", checkpoint->claim_name}}}});
  worker["volumeMounts"].push_back(
      {{"name", api::kCheckpointVolume}, {"mountPath", checkpoint->path}});
  Json& security = spec["securityContext"];
  if (!security.is_object()) {
    security = Json::object();
  }
  if (!security.contains("fsGroup")) {
    const auto group = json::GetInt(security, {"runAsGroup"}, api::kDefaultFsGroup);
    security["fsGroup"] = group;
    // Without this the kubelet walks the whole volume at every start.
    security.emplace("fsGroupChangePolicy", "OnRootMismatch");
  }
}

Json& Worker(Json& spec) {
  Json& containers = spec["containers"];
  for (Json& container : containers) {
    if (json::GetString(container, {"name"}) == api::kWorkerContainer) {
      return container;
    }
  }
  return containers.front();
}

}  // namespace

Json BuildPod(const DDPJob& job, int attempt, int rank) {
  const std::string name = api::PodName(job.metadata.name, attempt, rank);
  Json labels = Json::object();
  if (const Json* given = json::Find(job.spec.pod_template, {"metadata", "labels"});
      given != nullptr && given->is_object()) {
    labels = *given;
  }
  Json metadata = OwnedMetadata(job, name, api::PodLabels(job.metadata, attempt, rank));
  labels.update(metadata["labels"]);
  metadata["labels"] = std::move(labels);
  if (const Json* given = json::Find(job.spec.pod_template, {"metadata", "annotations"})) {
    metadata["annotations"] = *given;
  }

  Json spec = job.spec.pod_template.at("spec");
  spec["restartPolicy"] = "Never";
  spec["hostname"] = name;
  spec["subdomain"] = job.metadata.name;
  spec.emplace("enableServiceLinks", false);
  Json& worker = Worker(spec);
  PrependEnv(worker, api::RankEnv(job, attempt, rank));
  AddPort(worker, api::kRendezvousPortName, job.spec.rendezvous_port);
  AddPort(worker, api::kProgressPortName, job.spec.progress.port);
  worker.emplace("terminationMessagePolicy", "FallbackToLogsOnError");
  AddVolumes(job, rank, spec, worker);
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

Json BuildService(const DDPJob& job) {
  const auto labels = api::JobLabels(job.metadata);
  const auto port = [](const char* name, int number) -> Json {
    return {{"name", name}, {"port", number}, {"targetPort", number}, {"protocol", "TCP"}};
  };
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", OwnedMetadata(job, job.metadata.name, labels)},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", labels},
            {"ports",
             {port(api::kRendezvousPortName, job.spec.rendezvous_port),
              port(api::kProgressPortName, job.spec.progress.port)}}}}};
}

}  // namespace ddp::job
