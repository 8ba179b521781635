// A manifest that a user wrote: what is accepted can be rendered and prepared for a local run, and
// what was parsed says the same when it is written and parsed again.
#include <string>

#include "operator/cli/manifest.h"
#include "operator/cli/yaml_writer.h"
#include "operator/ddpjob/builders.h"
#include "operator/ddpjob/local/local_job.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddp;
  const auto manifest = cli::ReadManifest({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!manifest) {
    DDP_CHECK(!manifest.error().lines.empty(), "a refusal says why");
    for (const std::string& line : manifest.error().lines) {
      DDP_CHECK(line.starts_with("fuzz: "), "an error names the file");
    }
    return 0;
  }
  const json::Json pod = job::BuildPod(manifest->job, 1, 0);
  DDP_CHECK(json::ParseYaml(cli::ToYaml(pod)).has_value(), "what is rendered can be read");
  (void)job::BuildService(manifest->job);
  (void)job::PrepareLocal(manifest->job, manifest->object);
  const json::Json again = {{"apiVersion", api::kApiVersion},
                            {"kind", api::kKind},
                            {"metadata", {{"name", manifest->job.metadata.name}}},
                            {"spec", api::SpecToJson(manifest->job.spec)}};
  const auto reread = api::ParseJob(again);
  DDP_CHECK(reread && reread->spec == manifest->job.spec, "a spec reads back as it was written");
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  const std::string head =
      "apiVersion: ddpjob.dev/v1alpha1\nkind: DDPJob\nmetadata: {name: a, namespace: b}\nspec:\n";
  return {head +
              "  replicas: 2\n  restart: {maxRestarts: 3, backoffSeconds: 1,\n"
              "    rules: [{exitCodes: [3, 4], action: Fail}]}\n"
              "  checkpoint: {path: /c, claimName: c, mount: All}\n  progress: {port: 9410,\n"
              "    stallTimeoutSeconds: 60, onStall: Report}\n  suspend: true\n"
              "  template:\n    spec:\n      containers:\n      - name: worker\n"
              "        image: \"i:1\"\n        command: [sh, -c, 'echo $(RANK)']\n"
              "        env: [{name: A, value: '1'}]\n",
          head +
              "  replicas: 1\n  processesPerReplica: 8\n  template: {metadata: {labels: {a: b}},\n"
              "    spec: {containers: [{name: x, image: y, args: [z]}], volumes: []}}\n"
              "---\nkind: PersistentVolumeClaim\nmetadata: {name: c}\n",
          R"({"apiVersion":"ddpjob.dev/v1alpha1","kind":"DDPJob","metadata":{"name":"a"},)"
          R"("spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"w"}]}}}})"};
}
