#include "runtime/store/hash_store.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace ddp::rt::store {

void HashStore::Set(const std::string& key, std::string_view value) {
  const std::scoped_lock lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::string HashStore::Get(const std::string& key, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto present = [&] { return values_.contains(key); };
  if (!changed_.wait_until(lock, deadline.at(), present)) {
    throw MissingKey(key, deadline);
  }
  return values_[key];
}

std::optional<std::string> HashStore::TryGet(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t HashStore::Add(const std::string& key, std::int64_t delta) {
  const std::scoped_lock lock(mutex_);
  std::string& value = values_[key];
  const std::int64_t sum = (value.empty() ? 0 : std::stoll(value)) + delta;
  value = std::to_string(sum);
  changed_.notify_all();
  return sum;
}

std::string HashStore::CompareSet(const std::string& key, std::string_view expected,
                                  std::string_view desired) {
  const std::scoped_lock lock(mutex_);
  const auto found = values_.find(key);
  const bool absent = found == values_.end();
  if (absent ? !expected.empty() : found->second != expected) {
    return absent ? std::string(expected) : found->second;
  }
  values_[key] = desired;
  changed_.notify_all();
  return std::string(desired);
}

bool HashStore::Delete(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  return values_.erase(key) > 0;
}

}  // namespace ddp::rt::store
