// A manifest file → the one DDPJob in it, parsed and validated, or the sentences that say what is
// wrong and the exit code that goes with them.
#pragma once

#include <string>
#include <vector>

#include "operator/api/parse.h"

namespace ddp::cli {

struct Manifest {
  api::DDPJob job;
  json::Json object;                // what the job was parsed from
  std::vector<std::string> others;  // the file's other documents: "PersistentVolumeClaim/x"
};

struct ManifestError {
  int exit_code = 0;
  std::vector<std::string> lines;  // "FILE: spec.replicas: must be …"
};

// `path` "-": standard input.
base::Result<Manifest, ManifestError> LoadManifest(const std::string& path);

// The same, from text; `source` is what errors name.
base::Result<Manifest, ManifestError> ReadManifest(const std::string& text,
                                                   const std::string& source);

}  // namespace ddp::cli
