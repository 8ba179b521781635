#include "runtime/checkpoint/shards.h"

#include <fmt/format.h>

#include <charconv>

#include "runtime/base/deadline.h"
#include "runtime/base/error.h"

namespace ddp::rt::checkpoint {
namespace {

constexpr std::string_view kFailed = "failed ";
constexpr size_t kHashDigits = 16;

std::string Key(int64_t number, int rank) {
  return fmt::format("checkpoint-shard/{}/{}", number, rank);
}

[[noreturn]] void Garbled(int rank, std::string_view text) {
  throw Error(ExitCode::kSoftware,
              fmt::format("rank {} says '{}' about its part of the checkpoint", rank, text));
}

}  // namespace

std::string ShardName(int rank, int world_size) {
  return fmt::format("optimizer-{}-of-{}.safetensors", rank, world_size);
}

std::string FormatShard(const FileEntry& shard) {
  return fmt::format("{} {} {}", shard.bytes, shard.xxh3, shard.name);
}

FileEntry ParseShard(int rank, std::string_view text) {
  if (text.starts_with(kFailed)) {
    throw Error(ExitCode::kSoftware, fmt::format("rank {}: {}", rank, text.substr(kFailed.size())));
  }
  FileEntry shard;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, shard.bytes);
  const std::string_view rest(stop, static_cast<size_t>(end - stop));
  if (error != std::errc() || rest.size() < kHashDigits + 3 || rest[0] != ' ' ||
      rest[kHashDigits + 1] != ' ') {
    Garbled(rank, text);
  }
  shard.xxh3 = rest.substr(1, kHashDigits);
  shard.name = rest.substr(kHashDigits + 2);
  return shard;
}

ShardExchange::ShardExchange(store::Store& store, int rank, int world_size,
                             std::chrono::milliseconds timeout)
    : store_(store), rank_(rank), world_size_(world_size), timeout_(timeout) {}

void ShardExchange::Begin() {
  const std::lock_guard lock(mutex_);
  ++number_;
}

void ShardExchange::Say(const std::string& text) { store_.Set(Key(number_, rank_), text); }

void ShardExchange::Announce(const FileEntry& shard) { Say(FormatShard(shard)); }

void ShardExchange::AnnounceFailure(const std::string& why) { Say(std::string(kFailed) + why); }

std::vector<FileEntry> ShardExchange::Collect() {
  std::vector<FileEntry> shards;
  const auto all = Deadline::In(timeout_, "all parts of the checkpoint");
  {
    const std::lock_guard lock(mutex_);
    if (!abandoned_.empty()) {
      throw Error(ExitCode::kUnavailable, abandoned_);
    }
  }
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto text =
        store_.Get(Key(number_, rank),
                   all.For(fmt::format("rank {} to save its part of the checkpoint", rank)));
    shards.push_back(ParseShard(rank, text));
    if (shards.back().name != ShardName(rank, world_size_)) {
      Garbled(rank, text);
    }
  }
  for (int rank = 0; rank < world_size_; ++rank) {
    store_.Delete(Key(number_, rank));
  }
  return shards;
}

// Says it in the place of those that have said nothing: a Collect that waits for them reads it.
void ShardExchange::Abandon(const std::string& why) {
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = why;
    number = number_;
  }
  for (int rank = 0; rank < world_size_; ++rank) {
    if (rank != rank_) {
      store_.CompareSet(Key(number, rank), "", std::string(kFailed) + why);
    }
  }
}

}  // namespace ddp::rt::checkpoint
