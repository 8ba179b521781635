#include "operator/json/json.h"

#include <fmt/format.h>

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

}  // namespace

base::Result<Json> Parse(std::string_view text) {
  if (TooDeep(text)) {
    return base::Error{base::ErrorCode::kInvalid,
                       fmt::format("JSON is nested deeper than {} levels", kMaxDepth)};
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
