#include "runtime/train/yaml_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "runtime/base/error.h"

namespace ddp::rt::train {
namespace {

constexpr const char* kQuoted = "!";  // the tag that yaml-cpp gives to quoted text

[[noreturn]] void FailAt(const std::string& source, int line, const std::string& what) {
  throw Error(ExitCode::kConfig, fmt::format("{}:{}: {}", source, line + 1, what));
}

// How many letters must change, come or go to make one word of the other.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

std::string Suggestion(const std::string& key, const std::vector<std::string>& known) {
  const auto nearest = std::min_element(
      known.begin(), known.end(),
      [&](const auto& a, const auto& b) { return Distance(key, a) < Distance(key, b); });
  if (nearest != known.end() && Distance(key, *nearest) <= std::max<size_t>(2, key.size() / 3)) {
    return fmt::format("did you mean '{}'?", *nearest);
  }
  return fmt::format("known here: {}", fmt::join(known, ", "));
}

// Quoted text is no number.
template <typename T>
bool FromText(const YAML::Node& node, T& value) {
  const std::string& text = node.Scalar();
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && node.Tag() != kQuoted;
}

// Ignores what is in a document.
class Ignore final : public YAML::EventHandler {
 public:
  using Mark = YAML::Mark;
  using Style = YAML::EmitterStyle::value;
  void OnDocumentStart(const Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       Style /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  Style /*style*/) override {}
  void OnMapEnd() override {}
};

// Not LoadAll: for some broken texts that finds documents without end.
bool HasSecondDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Ignore ignore;
  return parser.HandleNextDocument(ignore) && parser.HandleNextDocument(ignore);
}

}  // namespace

YAML::Node LoadDocument(std::string_view yaml, const std::string& source) {
  const std::string text(yaml);
  try {
    if (HasSecondDocument(text)) {
      throw Error(ExitCode::kConfig,
                  fmt::format("{}: it has several YAML documents, expected one", source));
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& e) {
    FailAt(source, std::max(0, e.mark.line), "not valid YAML: " + e.msg);
  }
}

YamlSection::YamlSection(const YAML::Node& node, std::string name, std::string source)
    : node_(node), name_(std::move(name)), source_(std::move(source)) {
  if (node_.IsNull()) {
    return;
  }
  if (!node_.IsMap()) {
    Fail(node_, fmt::format("{} must be a mapping of keys to values",
                            name_.empty() ? "the config" : "'" + name_ + "'"));
  }
  std::set<std::string> seen;
  for (const auto& entry : node_) {
    if (!entry.first.IsScalar()) {
      Fail(entry.first, "a key must be plain text");
    }
    if (!seen.insert(entry.first.Scalar()).second) {
      Fail(entry.first, fmt::format("key '{}' appears twice", Path(entry.first.Scalar())));
    }
  }
}

std::optional<YAML::Node> YamlSection::Take(const char* key) {
  known_.emplace_back(key);
  if (node_.IsMap()) {
    if (const auto node = std::as_const(node_)[key]; node.IsDefined()) {
      return node;
    }
  }
  return std::nullopt;
}

std::optional<YAML::Node> YamlSection::TakeScalar(const char* key, const std::string& wanted) {
  auto node = Take(key);
  if (node && !node->IsScalar()) {
    Fail(*node, fmt::format("'{}' must be {}", Path(key), wanted));
  }
  return node;
}

void YamlSection::Read(const char* key, int64_t low, int64_t high, int64_t& value) {
  const auto wanted = fmt::format("a whole number from {} to {}", low, high);
  if (const auto node = TakeScalar(key, wanted)) {
    int64_t read = 0;
    if (!FromText(*node, read) || read < low || read > high) {
      FailValue(key, *node, wanted);
    }
    value = read;
  }
}

void YamlSection::Read(const char* key, int low, int high, int& value) {
  int64_t wide = value;
  Read(key, int64_t{low}, int64_t{high}, wide);
  value = static_cast<int>(wide);
}

void YamlSection::Read(const char* key, uint64_t& value) {
  const std::string wanted = "a whole number from 0 to 2^64-1";
  if (const auto node = TakeScalar(key, wanted); node && !FromText(*node, value)) {
    FailValue(key, *node, wanted);
  }
}

void YamlSection::Read(const char* key, double low, double high, double& value) {
  const auto wanted = fmt::format("a number from {} to {}", low, high);
  if (const auto node = TakeScalar(key, wanted)) {
    double read = 0;
    if (!FromText(*node, read) || !std::isfinite(read) || read < low || read > high) {
      FailValue(key, *node, wanted);
    }
    value = read;
  }
}

void YamlSection::Read(const char* key, bool& value) {
  const std::string wanted = "true or false";
  if (const auto node = TakeScalar(key, wanted)) {
    const std::string& text = node->Scalar();
    if (node->Tag() == kQuoted || (text != "true" && text != "false")) {
      FailValue(key, *node, wanted);
    }
    value = text == "true";
  }
}

void YamlSection::Read(const char* key, std::string& value) {
  if (const auto node = TakeScalar(key, "text")) {
    if (node->Scalar().empty()) {
      Fail(*node, fmt::format("'{}' must not be empty", Path(key)));
    }
    value = node->Scalar();
  }
}

void YamlSection::ReadChoice(const char* key, const std::vector<std::string>& choices,
                             std::string& value) {
  const auto wanted = fmt::format("one of {}", fmt::join(choices, ", "));
  if (const auto node = TakeScalar(key, wanted)) {
    if (std::find(choices.begin(), choices.end(), node->Scalar()) == choices.end()) {
      FailValue(key, *node, wanted);
    }
    value = node->Scalar();
  }
}

YamlSection YamlSection::Sub(const char* key) {
  return {Take(key).value_or(YAML::Node()), Path(key), source_};
}

void YamlSection::Forbid(const char* key, const std::string& why) {
  if (const auto node = Take(key)) {
    Fail(*node, fmt::format("'{}' {}", Path(key), why));
  }
  known_.pop_back();
}

void YamlSection::Refuse(const char* key, const std::string& what) const {
  const bool there = node_.IsMap() && node_[key].IsDefined();
  Fail(there ? node_[key] : node_, fmt::format("'{}' {}", Path(key), what));
}

void YamlSection::Finish() const {
  if (!node_.IsMap()) {
    return;
  }
  for (const auto& entry : node_) {
    const std::string& key = entry.first.Scalar();
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      Fail(entry.first, fmt::format("unknown key '{}'; {}", Path(key), Suggestion(key, known_)));
    }
  }
}

void YamlSection::FailValue(const char* key, const YAML::Node& at,
                            const std::string& wanted) const {
  Fail(at, fmt::format("'{}' is '{}', but must be {}", Path(key), at.Scalar(), wanted));
}

void YamlSection::Fail(const YAML::Node& at, const std::string& what) const {
  FailAt(source_, std::max(0, at.Mark().line), what);
}

std::string YamlSection::Path(std::string_view key) const {
  return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
}

}  // namespace ddp::rt::train
