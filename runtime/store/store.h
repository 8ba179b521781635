// The key-value store through which ranks find each other and agree. Small values, start-up and
// rare events only; nothing of a training step goes through it. Free of torch.
// Thread-safe; of the calls of one process only Get waits, and a second Get waits for the first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/error.h"

namespace ddp::rt::store {

// Values are bytes. Every method throws Error(kUnavailable) when the store's host is gone.
class Store {
 public:
  Store() = default;
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  virtual void Set(const std::string& key, std::string_view value) = 0;
  // Waits until the key exists. Past the deadline: Error(kUnavailable) with key and reason.
  virtual std::string Get(const std::string& key, const Deadline& deadline) = 0;
  // The value now, or nothing.
  virtual std::optional<std::string> TryGet(const std::string& key) = 0;
  // Adds to a counter (absent = 0) and returns the sum. Atomic.
  virtual std::int64_t Add(const std::string& key, std::int64_t delta) = 0;
  // Writes `desired` if the value equals `expected`; an `expected` of "" also matches an absent
  // key. Returns the value after the call.
  virtual std::string CompareSet(const std::string& key, std::string_view expected,
                                 std::string_view desired) = 0;
  // True if there was such a key.
  virtual bool Delete(const std::string& key) = 0;
};

// What each rank says under `key`, in the order of ranks. Every rank calls it once per key; waits
// until all have, and the error names the ranks that have not.
std::vector<std::string> Exchange(Store& store, const std::string& key, int rank, int world_size,
                                  std::string_view mine, const Deadline& deadline);

// The ranks for which there is no key "<key>/<rank>" yet: to name who is late.
std::vector<int> MissingRanks(Store& store, const std::string& key, int world_size);

// What Get throws past its deadline: for implementations.
Error MissingKey(const std::string& key, const Deadline& deadline);

}  // namespace ddp::rt::store
