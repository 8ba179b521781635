// A manifest file → the one DDPJob in it, parsed and validated, or the sentences that say what is
// wrong and the exit code that goes with them.
#pragma once

#include <string>
#include <vector>

#include "operator/api/parse.h"
#include "operator/cli/report.h"

namespace ddp::cli {

struct Manifest {
  api::DDPJob job;
  json::Json object;                // what the job was parsed from
  std::vector<std::string> others;  // the file's other documents: "PersistentVolumeClaim/x"
};

// `path` "-": standard input.
base::Result<Manifest, CliError> LoadManifest(const std::string& path);

// The same, from text; `source` is what errors name.
base::Result<Manifest, CliError> ReadManifest(const std::string& text, const std::string& source);

}  // namespace ddp::cli
