// A store in the memory of one process: for tests with ranks as threads, and for a world of one.
// Share it by std::shared_ptr. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "runtime/store/store.h"

namespace ddp::rt::store {

class HashStore final : public Store {
 public:
  void Set(const std::string& key, std::string_view value) override;
  std::string Get(const std::string& key, const Deadline& deadline) override;
  std::optional<std::string> TryGet(const std::string& key) override;
  std::int64_t Add(const std::string& key, std::int64_t delta) override;
  std::string CompareSet(const std::string& key, std::string_view expected,
                         std::string_view desired) override;
  bool Delete(const std::string& key) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace ddp::rt::store
