// A folder of checkpoints: `<folder>/step-000000000120/` with model.safetensors,
// optimizer.safetensors and state.json, the commit record, written last (record.h).
// Only rank 0 has one. Save and Load may run on different threads, but not at the same time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/record.h"
#include "runtime/checkpoint/safetensors.h"

namespace ddp::rt::checkpoint {

// What is saved. The elements must not change until Save has returned.
struct Contents {
  Position position;
  std::vector<TensorView> model;
  std::vector<TensorView> optimizer;
};

// What was loaded; the views point into the bytes, so it moves but does not copy.
struct Loaded {
  std::filesystem::path path;
  Position position;
  std::vector<TensorView> model;
  std::vector<TensorView> optimizer;
  std::vector<std::byte> model_bytes;
  std::vector<std::byte> optimizer_bytes;

  Loaded() = default;
  Loaded(Loaded&&) = default;
  Loaded& operator=(Loaded&&) = default;
};

// One checkpoint as found: valid, or why not.
struct Found {
  std::filesystem::path path;
  int64_t step = 0;
  std::string problem;  // "" = every file has its size and checksum
};

class CheckpointFolder {
 public:
  // Keeps the newest `keep` (at least one) valid checkpoints.
  CheckpointFolder(std::filesystem::path folder, int keep);

  // Makes the folder if need be, and proves that it can be written to; removes what an interrupted
  // save left. Error(kConfig) says why it can't be used.
  void Prepare();

  // The newest checkpoint whose checksums hold, or nothing. Logs which were refused, and why.
  std::optional<Loaded> LoadNewest();

  // Returns when the checkpoint is on stable storage; then removes what retention does not keep:
  // older ones beyond `keep`, and those that LoadNewest refused. Returns its path.
  std::filesystem::path Save(const Contents& contents);

  // All checkpoints, newest first, each checked in full.
  std::vector<Found> List() const;

  const std::filesystem::path& path() const { return folder_; }

 private:
  void Retain(int64_t saved_step);

  std::filesystem::path folder_;
  size_t keep_;
  std::set<std::filesystem::path> refused_;
};

// Loads and checks one checkpoint. Error(kData) says what is wrong with it.
Loaded LoadCheckpoint(const std::filesystem::path& path);

// "step-000000000120"
std::string FolderName(int64_t step);

}  // namespace ddp::rt::checkpoint
