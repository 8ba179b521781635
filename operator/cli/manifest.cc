#include "operator/cli/manifest.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "operator/api/validate.h"
#include "operator/cli/exit_codes.h"

namespace ddp::cli {
namespace {

CliError Invalid(const std::string& source, const std::string& what) {
  return {kExitInvalid, {fmt::format("{}: {}", source, what)}};
}

CliError Invalid(const std::string& source, const std::vector<api::Problem>& problems) {
  CliError error{kExitInvalid, {}};
  for (const api::Problem& problem : problems) {
    error.lines.push_back(fmt::format("{}: {}", source, api::ToString(problem)));
  }
  return error;
}

bool IsJob(const json::Json& document) { return json::GetString(document, {"kind"}) == api::kKind; }

std::string NameOf(const json::Json& document) {
  return fmt::format("{}/{}", json::GetString(document, {"kind"}, "(no kind)"),
                     json::GetString(document, {"metadata", "name"}));
}

}  // namespace

base::Result<Manifest, CliError> ReadManifest(const std::string& text, const std::string& source) {
  auto documents = json::ParseYaml(text);
  if (!documents) {
    return Invalid(source, documents.error().message);
  }
  Manifest manifest;
  std::optional<json::Json> found;
  for (json::Json& document : *documents) {
    if (!IsJob(document)) {
      manifest.others.push_back(NameOf(document));
    } else if (found) {
      return Invalid(source, fmt::format("has more than one DDPJob ({} and {}): one file, one job",
                                         NameOf(*found), NameOf(document)));
    } else {
      found = std::move(document);
    }
  }
  if (!found) {
    return Invalid(source, fmt::format("has no DDPJob (apiVersion: {}, kind: {})", api::kApiVersion,
                                       api::kKind));
  }
  auto job = api::ParseJob(*found);
  if (!job) {
    return Invalid(source, job.error());
  }
  if (const auto problems = api::Validate(*job); !problems.empty()) {
    return Invalid(source, problems);
  }
  manifest.job = *std::move(job);
  manifest.object = *std::move(found);
  return manifest;
}

base::Result<Manifest, CliError> LoadManifest(const std::string& path) {
  if (path == "-") {
    return ReadManifest(
        std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()),
        "(standard input)");
  }
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    const int error = errno;
    return CliError{
        kExitNoInput,
        {fmt::format("{}: can't be read: {}", path, std::strerror(error != 0 ? error : EISDIR))}};
  }
  return ReadManifest(text, path);
}

}  // namespace ddp::cli
