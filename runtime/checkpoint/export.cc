#include "runtime/checkpoint/export.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/checkpoint/file.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/pieces.h"

namespace ddp::rt::checkpoint {
namespace {

namespace fs = std::filesystem;

Loaded Find(const fs::path& from) {
  std::error_code error;
  if (fs::exists(from / "state.json", error)) {
    return LoadCheckpoint(fs::absolute(from).lexically_normal());
  }
  auto loaded = CheckpointFolder(from, 1).LoadNewest();
  if (!loaded) {
    throw Error(ExitCode::kNoInput,
                fmt::format("{} is no valid checkpoint, and has none in it", from.string()));
  }
  return std::move(*loaded);
}

// What loaders of model hubs look for.
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};

void Write(const fs::path& path, std::span<const TensorView> tensors) {
  AtomicFile file(path);
  file.Append(SafetensorsHeader(tensors, kMetadata));
  for (const TensorView& tensor : tensors) {
    file.Append(tensor.elements);
  }
  file.Commit();
}

// Of what to go on with training, nothing belongs there.
bool OnlyForTraining(const std::string& name) { return name.starts_with("rng."); }

void WriteConfig(const fs::path& path, const Loaded& loaded) {
  nlohmann::ordered_json state = nlohmann::ordered_json::object();
  for (const auto& [name, text] : loaded.state) {
    if (!OnlyForTraining(name)) {
      state[name] = text;
    }
  }
  const nlohmann::ordered_json config = {{"step", loaded.position.step},
                                         {"epoch", loaded.position.epoch},
                                         {"configHash", loaded.position.config_hash},
                                         {"state", state}};
  AtomicFile file(path);
  file.Append(config.dump(2) + "\n");
  file.Commit();
}

void WriteFolder(const fs::path& folder, const Loaded& loaded, bool optimizer) {
  Write(folder / "model.safetensors", loaded.model);
  if (optimizer) {
    const Joined joined = JoinPieces(loaded.optimizer, loaded.model);
    Write(folder / "optimizer.safetensors", joined.tensors);
  }
  WriteConfig(folder / "config.json", loaded);
}

[[noreturn]] void CantUse(const fs::path& to, const std::string& why) {
  throw Error(ExitCode::kUsage, fmt::format("can't export to {}: {}", to.string(), why));
}

}  // namespace

fs::path Export(const ExportOptions& options) {
  const fs::path to = fs::absolute(options.to).lexically_normal();
  const bool file = to.extension() == ".safetensors";
  if (file && options.optimizer) {
    CantUse(to, "with the optimizer's state there are two files; give a folder");
  }
  std::error_code error;
  if (!file && fs::exists(to, error)) {
    CantUse(to, "it is there already");
  }
  fs::create_directories(to.parent_path(), error);
  if (error) {
    CantUse(to, error.message());
  }
  const Loaded loaded = Find(options.from);
  if (file) {
    Write(to, loaded.model);
    return loaded.path;
  }
  std::string work = to.string() + kTemporarySuffix + ".XXXXXX";
  if (mkdtemp(work.data()) == nullptr) {
    CantUse(to, std::generic_category().message(errno));
  }
  try {
    fs::permissions(work, fs::perms(0755));
    WriteFolder(work, loaded, options.optimizer);
    fs::rename(work, to);
    SyncFolder(to.parent_path());
  } catch (...) {
    fs::remove_all(work, error);
    throw;
  }
  return loaded.path;
}

}  // namespace ddp::rt::checkpoint
