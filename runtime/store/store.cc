#include "runtime/store/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "runtime/base/error.h"

namespace ddp::rt::store {
namespace {

std::string Pack(const std::vector<std::string>& values) {
  std::string packed;
  for (const std::string& value : values) {
    const std::uint64_t size = value.size();
    packed.append(reinterpret_cast<const char*>(&size), sizeof(size));
    packed += value;
  }
  return packed;
}

std::vector<std::string> Unpack(std::string_view packed) {
  std::vector<std::string> values;
  while (!packed.empty()) {
    std::uint64_t size = 0;
    DDP_RT_CHECK(packed.size() >= sizeof(size), "truncated exchange");
    std::memcpy(&size, packed.data(), sizeof(size));
    packed.remove_prefix(sizeof(size));
    DDP_RT_CHECK(packed.size() >= size, "truncated exchange");
    values.emplace_back(packed.substr(0, size));
    packed.remove_prefix(size);
  }
  return values;
}

}  // namespace

Error MissingKey(const std::string& key, const Deadline& deadline) {
  return {ExitCode::kUnavailable, fmt::format("gave up after {} waiting for {} (store key '{}')",
                                              deadline.TimeoutText(), deadline.reason(), key)};
}

std::vector<int> MissingRanks(Store& store, const std::string& key, int world_size) {
  std::vector<int> missing;
  for (int r = 0; r < world_size; ++r) {
    if (!store.TryGet(fmt::format("{}/{}", key, r))) {
      missing.push_back(r);
    }
  }
  return missing;
}

// Rank 0 collects and publishes all values as one, so that the store sees O(world) requests.
std::vector<std::string> Exchange(Store& store, const std::string& key, int rank, int world_size,
                                  std::string_view mine, const Deadline& deadline) {
  const std::string all_key = key + "/all";
  store.Set(fmt::format("{}/{}", key, rank), mine);
  try {
    if (rank != 0) {
      return Unpack(store.Get(all_key, deadline));
    }
    std::vector<std::string> all;
    all.reserve(static_cast<std::size_t>(world_size));
    for (int r = 0; r < world_size; ++r) {
      all.push_back(store.Get(fmt::format("{}/{}", key, r), deadline));
    }
    store.Set(all_key, Pack(all));
    return all;
  } catch (const Error&) {
    if (!deadline.Expired()) {
      throw;
    }
    throw Error(ExitCode::kUnavailable,
                fmt::format("gave up after {} waiting for {}: rank(s) {} have not come",
                            deadline.TimeoutText(), deadline.reason(),
                            fmt::join(MissingRanks(store, key, world_size), ", ")));
  }
}

}  // namespace ddp::rt::store
