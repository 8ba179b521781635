// A cache of objects by key ("namespace/name"). Objects are shared and const: a reader keeps what
// it got, and cannot change it. One writer (the informer), any number of readers; a reader sees the
// content before a Replace or after it, never half of a list. Readers hold `const Store&`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddp::controller {

template <typename T>
class Store {
 public:
  struct Entry {
    std::string uid;
    std::string version;  // resourceVersion: two entries of one uid and version are equal
    std::shared_ptr<const T> object;
  };
  using Entries = std::unordered_map<std::string, Entry>;
  // Groups entries for ByGroup, by the owner's UID say. "" for none.
  using Grouping = std::function<std::string(const T&)>;

  explicit Store(Grouping grouping = nullptr) : grouping_(std::move(grouping)) {}

  // ---- readers ----
  // An entry without object: not there.
  Entry Get(const std::string& key) const {
    std::shared_lock lock(mutex_);
    const auto it = content_.entries.find(key);
    return it == content_.entries.end() ? Entry{} : it->second;
  }
  // In the order of their keys.
  std::vector<Entry> ByGroup(const std::string& group) const {
    std::shared_lock lock(mutex_);
    std::vector<Entry> found;
    const auto it = content_.groups.find(group);
    if (it != content_.groups.end()) {
      found.reserve(it->second.size());
      for (const auto& [key, entry] : it->second) {
        found.push_back(*entry);
      }
    }
    return found;
  }
  size_t CountIf(const std::function<bool(const T&)>& wanted) const {
    std::shared_lock lock(mutex_);
    size_t count = 0;
    for (const auto& [key, entry] : content_.entries) {
      count += wanted(*entry.object) ? 1 : 0;
    }
    return count;
  }
  // In no order. `visit` must be quick: writers wait for it.
  void ForEach(const std::function<void(const T&)>& visit) const {
    std::shared_lock lock(mutex_);
    for (const auto& [key, entry] : content_.entries) {
      visit(*entry.object);
    }
  }
  size_t size() const {
    std::shared_lock lock(mutex_);
    return content_.entries.size();
  }

  // ---- the writer ----
  // Both return what was there before.
  Entry Put(const std::string& key, Entry entry) {
    std::unique_lock lock(mutex_);
    Entry before = content_.Remove(key, grouping_);
    content_.Insert(key, std::move(entry), grouping_);
    return before;
  }
  Entry Remove(const std::string& key) {
    std::unique_lock lock(mutex_);
    return content_.Remove(key, grouping_);
  }
  // Exchanges everything at once; returns the whole content before.
  Entries Replace(Entries entries) {
    Content fresh;
    for (const auto& [key, entry] : entries) {
      fresh.Insert(key, entry, grouping_);
    }
    std::unique_lock lock(mutex_);
    std::swap(content_, fresh);
    return std::move(fresh.entries);
  }

 private:
  struct Content {
    Entries entries;
    // By key, both as they lie in `entries`.
    std::unordered_map<std::string, std::map<std::string_view, const Entry*>> groups;

    // `key` must not be there yet.
    void Insert(const std::string& key, Entry entry, const Grouping& grouping) {
      const auto place = entries.emplace(key, std::move(entry)).first;
      const std::string group = grouping ? grouping(*place->second.object) : "";
      if (!group.empty()) {
        groups[group][place->first] = &place->second;
      }
    }
    Entry Remove(const std::string& key, const Grouping& grouping) {
      const auto it = entries.find(key);
      if (it == entries.end()) {
        return {};
      }
      const auto group = groups.find(grouping ? grouping(*it->second.object) : "");
      if (group != groups.end()) {
        group->second.erase(key);
        if (group->second.empty()) {
          groups.erase(group);
        }
      }
      Entry before = std::move(it->second);
      entries.erase(it);
      return before;
    }
  };

  const Grouping grouping_;
  mutable std::shared_mutex mutex_;
  Content content_;
};

}  // namespace ddp::controller
