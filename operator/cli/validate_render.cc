// `validate` and `render`: what a manifest says, without running it.
#include <fmt/format.h>

#include <cstdio>

#include "operator/cli/commands.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/manifest.h"
#include "operator/cli/report.h"
#include "operator/cli/yaml_writer.h"
#include "operator/ddpjob/builders.h"
#include "operator/ddpjob/extras.h"

namespace ddp::cli {
namespace {

// What the API server will set.
constexpr const char* kUnknownUid = "00000000-0000-0000-0000-000000000000";
// The operator asks the server which one it has.
constexpr const char* kPodGroupVersion = "v1alpha1";

}  // namespace

int Validate(const ValidateOptions& options) {
  const std::string& file = options.file;
  const auto manifest = LoadManifest(file);
  if (options.format != kText) {
    Print({{"file", file},
           {"valid", manifest.has_value()},
           {"problems", manifest ? std::vector<std::string>() : manifest.error().lines}},
          options.format);
    return manifest ? kExitOk : manifest.error().exit_code;
  }
  if (!manifest) {
    return Report(manifest.error());
  }
  const api::DDPJob& job = manifest->job;
  fmt::print("{}: DDPJob '{}' is valid: {} {}, at most {} restarts\n", file, job.metadata.name,
             job.spec.ranks(), job.spec.ranks() == 1 ? "rank" : "ranks",
             job.spec.restart.max_restarts);
  return kExitOk;
}

namespace {

// What comes before the pods, in the order in which the operator makes it.
std::vector<json::Json> BesidePods(const api::DDPJob& job, bool network_policy) {
  job::Observed observed;
  observed.job = job;
  observed.settings.network_policies = network_policy;
  std::vector<json::Json> objects = {job::BuildService(job)};
  for (const job::Extra extra : job::WantedExtras(observed)) {
    switch (extra) {
      case job::Extra::kClaim:
        objects.push_back(job::BuildClaim(job));
        break;
      case job::Extra::kNetworkPolicy:
        objects.push_back(job::BuildNetworkPolicy(job, {}));
        break;
      case job::Extra::kPodGroup:
        objects.push_back(job::BuildPodGroup(job, 1, kPodGroupVersion));
        break;
    }
  }
  return objects;
}

}  // namespace

int Render(const RenderOptions& options) {
  auto manifest = LoadManifest(options.file);
  if (!manifest) {
    return Report(manifest.error());
  }
  api::DDPJob& job = manifest->job;
  if (options.rank && (*options.rank < 0 || *options.rank >= job.spec.ranks())) {
    fmt::print(stderr, "--rank {}: the job has ranks 0 to {}\n", *options.rank,
               job.spec.ranks() - 1);
    return kExitUsage;
  }
  job.metadata.uid = kUnknownUid;
  std::vector<json::Json> objects;
  if (options.rank) {
    objects.push_back(job::BuildPod(job, 1, *options.rank / job.spec.processes_per_replica));
  } else {
    objects = BesidePods(job, options.network_policy);
    for (int replica = 0; replica < job.spec.replicas; ++replica) {
      objects.push_back(job::BuildPod(job, 1, replica));
    }
  }
  if (options.format == kJson) {
    Print({{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects}}, kJson);
    return kExitOk;
  }
  for (const json::Json& object : objects) {
    fmt::print("---\n{}", ToYaml(object));
  }
  return kExitOk;
}

}  // namespace ddp::cli
