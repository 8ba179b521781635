// Takes a checkpoint out of a run, for serving or for other programs: one folder that stands alone,
// with model.safetensors and config.json as model hubs have them, or one file.
#pragma once

#include <filesystem>

namespace ddp::rt::checkpoint {

struct ExportOptions {
  // A checkpoint, or a folder of them: then the newest that is valid.
  std::filesystem::path from;
  // A folder that does not exist yet, or a file whose name ends with .safetensors.
  std::filesystem::path to;
  // Also the optimizer's state, whole: put together if it lies in shards.
  bool optimizer = false;
};

// All or nothing: what is interrupted leaves nothing under the name. Returns the checkpoint that
// was taken. Error(kNoInput, kData, kUsage) says what is wrong.
std::filesystem::path Export(const ExportOptions& options);

}  // namespace ddp::rt::checkpoint
