// A checkpoint whose optimizer state lies in one file a rank. The ranks tell rank 0 through the
// store what they have written, and rank 0 commits once it knows of all. One object a rank and
// attempt; every rank saves the same checkpoints in the same order. Called by the saving thread,
// but for Abandon.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/checkpoint/record.h"
#include "runtime/store/store.h"

namespace ddp::rt::checkpoint {

// "optimizer-2-of-8.safetensors"
std::string ShardName(int rank, int world_size);

class ShardExchange {
 public:
  // The store outlives this object.
  ShardExchange(store::Store& store, int rank, int world_size, std::chrono::milliseconds timeout);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // The next checkpoint begins: every rank says so once for each.
  void Begin();
  // This rank's part of it is on stable storage, or could not be written.
  void Announce(const FileEntry& shard);
  void AnnounceFailure(const std::string& why);
  // Rank 0: all ranks' shards of it, in the order of ranks. Error names
  // the rank that failed or has not said anything within the timeout.
  std::vector<FileEntry> Collect();

  // Any thread: the other ranks are lost, so a Collect that waits for one, now or later, fails with
  // this reason instead of waiting on.
  void Abandon(const std::string& why);

 private:
  void Say(const std::string& text);

  store::Store& store_;
  int rank_;
  int world_size_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  int64_t number_ = 0;  // of checkpoints begun
  std::string abandoned_;
};

// What a rank says: for tests and fuzzers. Error(kUnavailable) for a failure told.
std::string FormatShard(const FileEntry& shard);
FileEntry ParseShard(int rank, std::string_view text);

}  // namespace ddp::rt::checkpoint
