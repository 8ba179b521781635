// A folder of checkpoints: `<folder>/step-000000000120/` with model.safetensors,
// optimizer.safetensors (or one file a rank, shards.h) and state.json, the commit record, written
// last (record.h). Rank 0 has one; the others only where each saves its own part. Save and Load may
// run on different threads, but not at the same time.
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
#include "runtime/checkpoint/shards.h"

namespace ddp::rt::checkpoint {

// What is saved. The elements must not change until Save has returned.
struct Contents {
  Position position;
  State state = {};
  std::vector<TensorView> model = {};      // in shards: of rank 0 only
  std::vector<TensorView> optimizer = {};  // in shards: this rank's pieces
};

// Who loads. Of a checkpoint in shards of as many ranks it gets its own shard, else all.
struct Reader {
  int rank = 0;
  int world_size = 1;
};

// What was loaded; the views point into the bytes, so it moves but does not copy.
struct Loaded {
  std::filesystem::path path;
  Position position;
  State state = {};
  int shards = 0;  // of how many ranks; 0 = the optimizer's state is whole
  std::vector<TensorView> model;
  std::vector<TensorView> optimizer;  // in shards: pieces (pieces.h)
  std::vector<std::byte> model_bytes;
  std::vector<std::vector<std::byte>> optimizer_bytes;  // of each file

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
  std::optional<Loaded> LoadNewest(const Reader& reader = {});

  // Returns when the checkpoint is on stable storage; then removes what retention does not keep:
  // older ones beyond `keep`, and those that LoadNewest refused. Returns its path. With `shards`
  // every rank calls it; the others than rank 0 return when their part is there. A failure leaves
  // nothing behind, and says how much room there is if the disk is full.
  std::filesystem::path Save(const Contents& contents, ShardExchange* shards = nullptr);

  // All checkpoints, newest first, each checked in full.
  std::vector<Found> List() const;

  const std::filesystem::path& path() const { return folder_; }

 private:
  void Write(const std::filesystem::path& path, const Contents& contents, ShardExchange* shards);
  void WriteShard(const std::filesystem::path& path, const Contents& contents,
                  ShardExchange& shards);
  void Retain(int64_t saved_step);

  std::filesystem::path folder_;
  size_t keep_;
  std::set<std::filesystem::path> refused_;
};

// Loads one checkpoint and checks all of it. Error(kData) says what is wrong with it.
Loaded LoadCheckpoint(const std::filesystem::path& path, const Reader& reader = {});

// The same without the model, and without checking what is not loaded: for the other ranks, once
// rank 0 has chosen a checkpoint in shards.
Loaded LoadOptimizer(const std::filesystem::path& path, const Reader& reader);

// "step-000000000120"
std::string FolderName(int64_t step);

}  // namespace ddp::rt::checkpoint
