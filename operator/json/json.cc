#include "operator/json/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddp::json {
namespace {

constexpr int kMaxDepth = 200;

// nlohmann's parser recurses for SAX only in its own stack vector, but destruction and dumping
// recurse: so depth is bounded here.
bool TooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) {
        return true;
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

base::Error TooDeepError() {
  return {base::ErrorCode::kInvalid,
          fmt::format("JSON is nested deeper than {} levels", kMaxDepth)};
}

// Builds a value from the parser's events, but for the members that are left out.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const Names& left_out) : left_out_(left_out) {}
  Json& root() { return root_; }
  const std::string& error() const { return error_; }

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(number_integer_t value) override { return Value(value); }
  bool number_unsigned(number_unsigned_t value) override { return Value(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return Value(value);
  }
  bool string(string_t& value) override { return Value(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // not in text
  bool start_object(size_t /*size*/) override { return Open(Json::object()); }
  bool start_array(size_t /*size*/) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (skipped_depth_ == 0) {
      skip_next_ = std::find(left_out_.begin(), left_out_.end(), name) != left_out_.end();
      member_ = skip_next_ ? nullptr : &(*open_.back())[std::move(name)];
    }
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    error_ = error.what();
    return false;
  }

 private:
  template <typename T>
  bool Value(T&& value) {
    if (skipped_depth_ == 0 && !std::exchange(skip_next_, false)) {
      Place(Json(std::forward<T>(value)));
    }
    return true;
  }
  bool Open(Json empty) {
    if (skipped_depth_ > 0 || std::exchange(skip_next_, false)) {
      ++skipped_depth_;
    } else {
      open_.push_back(Place(std::move(empty)));
    }
    return true;
  }
  bool Close() {
    if (skipped_depth_ > 0) {
      --skipped_depth_;
    } else {
      open_.pop_back();
    }
    return true;
  }
  Json* Place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *member_ = std::move(value);
    return member_;
  }

  const Names& left_out_;
  Json root_;
  std::string error_;
  std::vector<Json*>
      open_;  // the containers that are not complete; each the last of the one before
  Json* member_ = nullptr;
  bool skip_next_ = false;
  int skipped_depth_ = 0;
};

}  // namespace

base::Result<Json> ParseWithout(std::string_view text, const Names& names) {
  if (TooDeep(text)) {
    return TooDeepError();
  }
  Builder builder(names);
  if (!Json::sax_parse(text, &builder)) {
    return base::Error{base::ErrorCode::kInvalid, fmt::format("not JSON: {}", builder.error())};
  }
  return std::move(builder.root());
}

base::Result<Json> Parse(std::string_view text) {
  if (TooDeep(text)) {
    return TooDeepError();
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    return base::Error{base::ErrorCode::kInvalid, fmt::format("not JSON: {}", e.what())};
  }
}

const Json* Find(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* at = &value;
  for (const std::string_view key : path) {
    if (!at->is_object()) {
      return nullptr;
    }
    const auto it = at->find(key);
    if (it == at->end()) {
      return nullptr;
    }
    at = &*it;
  }
  return at;
}

std::string GetString(const Json& value, std::initializer_list<std::string_view> path,
                      std::string_view fallback) {
  const Json* found = Find(value, path);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string(fallback);
}

int64_t GetInt(const Json& value, std::initializer_list<std::string_view> path, int64_t fallback) {
  const Json* found = Find(value, path);
  return found != nullptr && found->is_number_integer() ? found->get<int64_t>() : fallback;
}

bool GetBool(const Json& value, std::initializer_list<std::string_view> path, bool fallback) {
  const Json* found = Find(value, path);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ddp::json
