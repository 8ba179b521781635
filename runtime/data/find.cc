#include "runtime/data/find.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <system_error>

#include "runtime/base/env.h"
#include "runtime/base/error.h"

namespace ddp::rt::data {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> Candidates(const std::string& path, const DataPlaces& places) {
  if (fs::path(path).is_absolute()) {
    return {path};
  }
  std::vector<fs::path> all;
  if (places.data_dir && !places.data_dir->empty()) {
    all.push_back(fs::path(*places.data_dir) / path);
  }
  all.push_back((places.program_dir / "../share/ddp/data").lexically_normal() / path);
  // A program in the build tree finds the downloaded data; an installed one never looks there.
  if (places.program_dir == fs::path(DDP_BUILD_PROGRAM_DIR)) {
    all.push_back(fs::path(DDP_BUILD_DATA_DIR) / path);
  }
  return all;
}

}  // namespace

DataPlaces PlacesOfThisProcess() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return {.data_dir = ProcessEnv()("DDP_DATA_DIR"), .program_dir = program.parent_path()};
}

fs::path FindData(const std::string& path, const DataPlaces& places) {
  std::vector<std::string> looked_at;
  for (const fs::path& candidate : Candidates(path, places)) {
    std::error_code error;
    if (fs::exists(candidate, error)) {
      return candidate;
    }
    looked_at.push_back(candidate.string());
  }
  throw Error(
      ExitCode::kNoInput,
      fmt::format("data '{}' (data.path of the config) not found; looked at: {}. Set "
                  "data.path to an absolute path, or DDP_DATA_DIR to the folder that has it",
                  path, fmt::join(looked_at, ", ")));
}

}  // namespace ddp::rt::data
