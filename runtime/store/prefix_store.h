// A view of another store in which every key begins with a prefix, so that two jobs, attempts or
// users of one store never meet. Thread-safe as the other store is.
#pragma once

#include <memory>
#include <utility>

#include "runtime/store/store.h"

namespace ddp::rt::store {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> inner)
      : prefix_(std::move(prefix)), inner_(std::move(inner)) {}

  void Set(const std::string& key, std::string_view value) override {
    inner_->Set(prefix_ + key, value);
  }
  std::string Get(const std::string& key, const Deadline& deadline) override {
    return inner_->Get(prefix_ + key, deadline);
  }
  std::optional<std::string> TryGet(const std::string& key) override {
    return inner_->TryGet(prefix_ + key);
  }
  std::int64_t Add(const std::string& key, std::int64_t delta) override {
    return inner_->Add(prefix_ + key, delta);
  }
  std::string CompareSet(const std::string& key, std::string_view expected,
                         std::string_view desired) override {
    return inner_->CompareSet(prefix_ + key, expected, desired);
  }
  bool Delete(const std::string& key) override { return inner_->Delete(prefix_ + key); }

 private:
  std::string prefix_;
  std::shared_ptr<Store> inner_;
};

}  // namespace ddp::rt::store
