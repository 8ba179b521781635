#include "operator/cli/yaml_writer.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ddp::cli {
namespace {

using json::Json;

// Plain only when no YAML reader, of whatever version, could take it for anything but text: letters
// first, and none of the words for true, false and null.
bool IsPlain(std::string_view text) {
  constexpr std::array kWords = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_safe = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/';
  };
  if (text.empty() || !is_letter(text.front()) || !std::all_of(text.begin(), text.end(), is_safe)) {
    return false;
  }
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

// A JSON string is a valid double-quoted YAML scalar.
std::string Scalar(const Json& value) {
  return value.is_string() && IsPlain(value.get_ref<const std::string&>())
             ? value.get<std::string>()
             : json::Dump(value);
}

void Write(const Json& value, size_t indent, std::string& out);

// The value after "key:" or "-"; `indent` is that of the lines below.
void WriteNested(const Json& value, size_t indent, bool in_list, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += ' ' + Scalar(value) + '\n';
    return;
  }
  if (in_list && value.is_object()) {
    // The first key stands on the dash's line.
    std::string nested;
    Write(value, indent, nested);
    out += ' ' + nested.substr(indent);
    return;
  }
  out += '\n';
  Write(value, indent, out);
}

void Write(const Json& value, size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, item] : value.items()) {
      out += margin + Scalar(key) + ':';
      WriteNested(item, item.is_array() ? indent : indent + 2, false, out);
    }
  } else if (value.is_array() && !value.empty()) {
    for (const Json& item : value) {
      out += margin + '-';
      WriteNested(item, indent + 2, true, out);
    }
  } else {
    out += margin + Scalar(value) + '\n';
  }
}

}  // namespace

std::string ToYaml(const json::Json& value) {
  std::string out;
  Write(value, 0, out);
  return out;
}

}  // namespace ddp::cli
