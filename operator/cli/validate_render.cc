// `validate` and `render`: what a manifest says, without running it.
#include <fmt/format.h>

#include <cstdio>

#include "operator/cli/commands.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/manifest.h"
#include "operator/cli/report.h"
#include "operator/cli/yaml_writer.h"
#include "operator/ddpjob/builders.h"

namespace ddp::cli {
namespace {

// What the API server will set.
constexpr const char* kUnknownUid = "00000000-0000-0000-0000-000000000000";

}  // namespace

int Validate(const std::string& file) {
  const auto manifest = LoadManifest(file);
  if (!manifest) {
    return Report(manifest.error());
  }
  const api::DDPJob& job = manifest->job;
  fmt::print("{}: DDPJob '{}' is valid: {} {}, at most {} restarts\n", file, job.metadata.name,
             job.spec.replicas, job.spec.replicas == 1 ? "rank" : "ranks",
             job.spec.restart.max_restarts);
  return kExitOk;
}

int Render(const RenderOptions& options) {
  auto manifest = LoadManifest(options.file);
  if (!manifest) {
    return Report(manifest.error());
  }
  api::DDPJob& job = manifest->job;
  if (options.rank && (*options.rank < 0 || *options.rank >= job.spec.replicas)) {
    fmt::print(stderr, "--rank {}: the job has ranks 0 to {}\n", *options.rank,
               job.spec.replicas - 1);
    return kExitUsage;
  }
  job.metadata.uid = kUnknownUid;
  std::vector<json::Json> objects;
  if (!options.rank) {
    objects.push_back(job::BuildService(job));
  }
  for (int rank = 0; rank < job.spec.replicas; ++rank) {
    if (!options.rank || *options.rank == rank) {
      objects.push_back(job::BuildPod(job, 1, rank));
    }
  }
  if (options.format == "json") {
    const json::Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects}};
    fmt::print("{}\n", list.dump(2, ' ', false, json::Json::error_handler_t::replace));
    return kExitOk;
  }
  for (const json::Json& object : objects) {
    fmt::print("---\n{}", ToYaml(object));
  }
  return kExitOk;
}

}  // namespace ddp::cli
