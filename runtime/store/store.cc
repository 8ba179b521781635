#include "runtime/store/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/error.h"

namespace ddp::rt::store {

Error MissingKey(const std::string& key, const Deadline& deadline) {
  return {ExitCode::kUnavailable, fmt::format("gave up after {} waiting for {} (store key '{}')",
                                              deadline.TimeoutText(), deadline.reason(), key)};
}

std::vector<std::string> Exchange(Store& store, const std::string& key, int rank, int world_size,
                                  std::string_view mine, const Deadline& deadline) {
  const auto key_of = [&](int r) { return fmt::format("{}/{}", key, r); };
  store.Set(key_of(rank), mine);
  std::vector<std::string> all;
  for (int r = 0; r < world_size; ++r) {
    try {
      all.push_back(store.Get(key_of(r), deadline));
    } catch (const Error&) {
      if (!deadline.Expired()) {
        throw;
      }
      std::vector<int> missing;
      for (int other = r; other < world_size; ++other) {
        if (!store.TryGet(key_of(other))) {
          missing.push_back(other);
        }
      }
      throw Error(ExitCode::kUnavailable,
                  fmt::format("gave up after {} waiting for {}: rank(s) {} have not come",
                              deadline.TimeoutText(), deadline.reason(), fmt::join(missing, ", ")));
    }
  }
  return all;
}

}  // namespace ddp::rt::store
