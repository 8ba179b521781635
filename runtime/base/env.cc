#include "runtime/base/env.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "runtime/base/error.h"

namespace ddp::rt {
namespace {

std::optional<int> ReadInt(const EnvReader& read, const char* name, int low, int high) {
  const auto text = read(name);
  if (!text || text->empty()) {
    return std::nullopt;
  }
  int value = 0;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || stop != text->data() + text->size() || value < low || value > high) {
    throw Error(ExitCode::kConfig,
                fmt::format("environment variable {}='{}' must be a whole number from {} to {}",
                            name, *text, low, high));
  }
  return value;
}

int Require(const std::optional<int>& value, const char* name) {
  if (!value) {
    throw Error(
        ExitCode::kConfig,
        fmt::format(
            "environment variable {} is not set, but RANK or WORLD_SIZE is: set RANK, WORLD_SIZE, "
            "MASTER_ADDR and MASTER_PORT together, as torchrun and the operator do",
            name));
  }
  return *value;
}

}  // namespace

EnvReader ProcessEnv() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

RankEnv ReadRankEnv(const EnvReader& read) {
  constexpr int kMaxRanks = 1'000'000;
  RankEnv env;
  const auto rank = ReadInt(read, "RANK", 0, kMaxRanks - 1);
  const auto world = ReadInt(read, "WORLD_SIZE", 1, kMaxRanks);
  if (rank || world) {
    env.world_size = Require(world, "WORLD_SIZE");
    env.rank = Require(rank, "RANK");
    if (env.rank >= env.world_size) {
      throw Error(ExitCode::kConfig,
                  fmt::format("RANK={} must be less than WORLD_SIZE={}", env.rank, env.world_size));
    }
    if (env.world_size > 1) {
      env.master_port = Require(ReadInt(read, "MASTER_PORT", 1, 65535), "MASTER_PORT");
      env.master_addr = read("MASTER_ADDR").value_or("");
      if (env.master_addr.empty()) {
        Require(std::nullopt, "MASTER_ADDR");
      }
    }
  }
  env.local_rank = ReadInt(read, "LOCAL_RANK", 0, kMaxRanks - 1).value_or(0);
  env.local_world_size = ReadInt(read, "LOCAL_WORLD_SIZE", 1, kMaxRanks).value_or(1);
  env.job_uid = read("DDP_JOB_UID").value_or("");
  env.attempt = ReadInt(read, "DDP_ATTEMPT", 0, 1'000'000'000).value_or(0);
  env.checkpoint_dir = read("DDP_CHECKPOINT_DIR").value_or("");
  env.progress_port = ReadInt(read, "DDP_PROGRESS_PORT", 0, 65535);
  return env;
}

}  // namespace ddp::rt
