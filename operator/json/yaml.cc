// YAML → JSON. The only file that includes yaml-cpp.
//
// It reads events, not nodes: a node tree shares aliased nodes, loses the place of a duplicate key,
// and is not safe to read from two threads. Events carry a mark for each value, so every refusal
// can name its line.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "operator/json/json.h"

namespace ddp::json {
namespace {

constexpr size_t kMaxDepth = 200;
constexpr size_t kMaxValues = 1'000'000;

struct Refusal {
  YAML::Mark mark;
  std::string what;
};

bool ParseInteger(const std::string& text, Json& out) {
  const char* begin = text.c_str() + (text[0] == '+' ? 1 : 0);
  const char* end = text.c_str() + text.size();
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end) {
    return false;
  }
  out = number;
  return true;
}

bool LooksLikeNumber(const std::string& text) {
  const size_t first = text.find_first_not_of("+-");
  return first <= 1 &&
         (std::isdigit(static_cast<unsigned char>(text[first])) != 0 ||
          (text[first] == '.' && first + 1 < text.size() &&
           std::isdigit(static_cast<unsigned char>(text[first + 1])) != 0)) &&
         text.find_first_not_of("0123456789+-.eE") == std::string::npos;
}

// A plain (unquoted) scalar by the core schema.
Json Plain(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return nullptr;
  }
  if (text == "true" || text == "True" || text == "TRUE") {
    return true;
  }
  if (text == "false" || text == "False" || text == "FALSE") {
    return false;
  }
  Json number;
  if (LooksLikeNumber(text)) {
    if (ParseInteger(text, number)) {
      return number;
    }
    char* end = nullptr;
    const double real = std::strtod(text.c_str(), &end);
    if (end == text.c_str() + text.size() && std::isfinite(real)) {
      return real;
    }
  }
  return text;
}

class Builder : public YAML::EventHandler {
 public:
  // NOLINTNEXTLINE(bugprone-exception-escape): the null Json that it starts with throws nothing.
  Builder() = default;
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder() override = default;

  void OnDocumentStart(const YAML::Mark& /*mark*/) override { document_ = nullptr; }
  void OnDocumentEnd() override {
    if (!document_.is_null()) {
      documents_.push_back(std::move(document_));
    }
    document_ = nullptr;
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    Add(mark, nullptr, true);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw Refusal{mark, "aliases (*name) are not supported: write the value out"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    if (tag == "?" || tag.empty()) {
      Add(mark, Plain(value), true, &value);
    } else if (tag == "!" || tag == "tag:yaml.org,2002:str") {
      Add(mark, value, true, &value);
    } else {
      throw Refusal{mark, fmt::format("tag '{}' is not supported", tag)};
    }
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {
    Add(mark, Json::array(), false);
  }
  void OnSequenceEnd() override { stack_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    Add(mark, Json::object(), false);
  }
  void OnMapEnd() override { stack_.pop_back(); }

  std::vector<Json> TakeDocuments() { return std::move(documents_); }

 private:
  struct Frame {
    Json* value;
    std::optional<std::string> key;
  };

  void Add(const YAML::Mark& mark, Json value, bool is_leaf, const std::string* text = nullptr) {
    if (++count_ > kMaxValues) {
      throw Refusal{mark, fmt::format("more than {} values", kMaxValues)};
    }
    Json* slot = &document_;
    if (!stack_.empty()) {
      Frame& frame = stack_.back();
      if (frame.value->is_object() && !frame.key) {
        if (!is_leaf || text == nullptr) {
          throw Refusal{mark, "a key must be plain text"};
        }
        if (frame.value->contains(*text)) {
          throw Refusal{mark, fmt::format("key '{}' is given twice", *text)};
        }
        frame.key = *text;
        return;
      }
      if (frame.value->is_object()) {
        slot = &(*frame.value)[*frame.key];
        frame.key.reset();
      } else {
        frame.value->push_back(nullptr);
        slot = &frame.value->back();
      }
    }
    *slot = std::move(value);
    if (!is_leaf) {
      if (stack_.size() >= kMaxDepth) {
        throw Refusal{mark, fmt::format("nested deeper than {} levels", kMaxDepth)};
      }
      stack_.push_back({slot, std::nullopt});
    }
  }

  Json document_;
  std::vector<Json> documents_;
  std::vector<Frame> stack_;
  size_t count_ = 0;
};

base::Error At(const YAML::Mark& mark, const std::string& what) {
  return {base::ErrorCode::kInvalid,
          fmt::format("line {}, column {}: {}", mark.line + 1, mark.column + 1, what)};
}

}  // namespace

base::Result<std::vector<Json>> ParseYaml(std::string_view text) {
  std::istringstream stream{std::string(text)};
  Builder builder;
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal& refusal) {
    return At(refusal.mark, refusal.what);
  } catch (const YAML::Exception& e) {
    return At(e.mark, e.msg);
  }
  return builder.TakeDocuments();
}

}  // namespace ddp::json
