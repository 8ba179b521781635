// Keeps a Store equal to a resource on the server, and tells what changed. Run() on a thread of its
// own; the handler is called on that thread, after the store has the change, and must only note
// keys down. A relist gives the differences only: what vanished while nobody watched is told as
// gone, and what was deleted and made again (another UID) as gone and new.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "operator/controller/store.h"
#include "operator/kube/watcher.h"

namespace ddp::controller {

// What a manager needs of an informer of any type.
class Source {
 public:
  explicit Source(std::string name) : name_(std::move(name)) {}
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  virtual void Run(std::stop_token stop) = 0;

  const std::string& name() const { return name_; }
  bool synced() const {
    std::lock_guard lock(mutex_);
    return synced_;
  }
  // False: not before the deadline, or stopped.
  bool WaitForSync(const std::stop_token& stop,
                   std::chrono::steady_clock::time_point deadline) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, stop, deadline, [this] { return synced_; });
  }

 protected:
  void SetSynced() {
    std::lock_guard lock(mutex_);
    synced_ = true;
    changed_.notify_all();
  }

 private:
  const std::string name_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  bool synced_ = false;
};

template <typename T>
class Informer : public Source {
 public:
  using Object = std::shared_ptr<const T>;
  // Nothing: not of interest, as if it were not there.
  using Parse = std::function<std::optional<T>(const json::Json&)>;
  // (null, now): new; (before, now): changed; (before, null): gone, with the last that is known.
  using Handler = std::function<void(const Object& before, const Object& now)>;

  Informer(std::string name, std::unique_ptr<kube::WatchSource> source, Parse parse,
           typename Store<T>::Grouping grouping, Handler handler)
      : Source(std::move(name)),
        source_(std::move(source)),
        parse_(std::move(parse)),
        handler_(std::move(handler)),
        store_(std::move(grouping)) {}

  const Store<T>& store() const { return store_; }

  // While it lives no event is applied: the store, and what the handler keeps elsewhere, tell of
  // the same moment. Without it a reader of both can miss an object that moves from one to the
  // other. Not to be held by the handler, nor for long: the watch waits.
  [[nodiscard]] std::unique_lock<std::mutex> Hold() const { return std::unique_lock(applying_); }

  void Run(std::stop_token stop) override {
    kube::Watcher(name(), *source_).Run(std::move(stop), [this](const kube::ObjectEvent& event) {
      // Read before: that takes longer than all the rest.
      std::optional<Entry> entry = IsOfObject(event.kind) ? ToEntry(event.object) : std::nullopt;
      const std::lock_guard lock(applying_);
      Apply(event, std::move(entry));
    });
  }

 private:
  using Kind = kube::ObjectEvent::Kind;
  using Entry = typename Store<T>::Entry;

  static std::string Key(const json::Json& object) {
    return json::GetString(object, {"metadata", "namespace"}) + "/" +
           json::GetString(object, {"metadata", "name"});
  }

  static bool IsOfObject(Kind kind) {
    return kind == Kind::kInitItem || kind == Kind::kUpsert || kind == Kind::kDelete;
  }

  void Apply(const kube::ObjectEvent& event, std::optional<Entry> entry) {
    switch (event.kind) {
      case Kind::kInitStart:
        listed_.clear();
        break;
      case Kind::kInitItem:
        if (entry) {
          listed_[Key(event.object)] = *std::move(entry);
        }
        break;
      case Kind::kInitDone:
        FinishList();
        break;
      case Kind::kUpsert:
        Upsert(Key(event.object), std::move(entry));
        break;
      case Kind::kDelete:
        Delete(Key(event.object), std::move(entry));
        break;
    }
  }

  // A deletion tells of the object's last state, which may be newer than what was seen.
  void Delete(const std::string& key, std::optional<Entry> last) {
    Entry before = store_.Remove(key);
    if (last && last->uid == before.uid) {
      before = *std::move(last);
    }
    Tell(before, {});
  }

  std::optional<Entry> ToEntry(const json::Json& object) const {
    std::optional<T> parsed = parse_(object);
    if (!parsed) {
      return std::nullopt;
    }
    return Entry{json::GetString(object, {"metadata", "uid"}),
                 json::GetString(object, {"metadata", "resourceVersion"}),
                 std::make_shared<const T>(*std::move(parsed))};
  }

  void Upsert(const std::string& key, std::optional<Entry> entry) {
    if (entry) {
      const Entry before = store_.Put(key, *entry);
      Tell(before, *entry);
    } else {
      Tell(store_.Remove(key), {});
    }
  }

  void FinishList() {
    typename Store<T>::Entries listed = std::exchange(listed_, {});
    typename Store<T>::Entries before = store_.Replace(listed);
    for (const auto& [key, entry] : listed) {
      const auto old = before.find(key);
      Tell(old == before.end() ? Entry{} : old->second, entry);
      if (old != before.end()) {
        before.erase(old);
      }
    }
    for (const auto& [key, entry] : before) {
      Tell(entry, {});
    }
    SetSynced();
  }

  void Tell(const Entry& before, const Entry& now) const {
    if (before.object != nullptr && now.object != nullptr && before.uid != now.uid) {
      handler_(before.object, nullptr);
      handler_(nullptr, now.object);
    } else if (before.uid != now.uid || before.version != now.version) {
      handler_(before.object, now.object);
    }
  }

  const std::unique_ptr<kube::WatchSource> source_;
  const Parse parse_;
  const Handler handler_;
  Store<T> store_;
  typename Store<T>::Entries listed_;  // a list that is not complete yet
  mutable std::mutex applying_;        // taken before any other lock
};

}  // namespace ddp::controller
