// The one JSON value of the operator, and its two ways in: JSON text (Kubernetes) and YAML text
// (people). YAML becomes JSON at this edge; nothing else sees a YAML node. Values are plain data:
// no locks, copy freely.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"

namespace ddp::json {

using Json = nlohmann::json;

// Never throws. kInvalid names line and column. Refuses what is nested deeper than 200, so that no
// input can exhaust the stack.
base::Result<Json> Parse(std::string_view text);

// As Parse, but members with one of these names are left out, wherever they stand, and cost no
// memory: what nobody reads of a large object.
using Names = std::vector<std::string_view>;
base::Result<Json> ParseWithout(std::string_view text, const Names& names);

// Every document of a YAML (or JSON) text, by the rules of YAML 1.2's JSON schema as Kubernetes
// reads it: quoted scalars are strings, `on`/`yes` are strings, 0123 is the number 123. Empty
// documents are skipped. kInvalid, with line and column, for: bad syntax, a key given twice,
// aliases (none of our files needs them, and they can expand without bound), more than 200 levels,
// or more than 1,000,000 values.
base::Result<std::vector<Json>> ParseYaml(std::string_view text);

// The value at a path of keys, or null when any part is missing or no object: Find(pod,
// {"metadata", "name"}).
const Json* Find(const Json& value, std::initializer_list<std::string_view> path);

// The same, as a type; `fallback` when missing or of another type.
std::string GetString(const Json& value, std::initializer_list<std::string_view> path,
                      std::string_view fallback = "");
int64_t GetInt(const Json& value, std::initializer_list<std::string_view> path,
               int64_t fallback = 0);
bool GetBool(const Json& value, std::initializer_list<std::string_view> path,
             bool fallback = false);

// Compact text, invalid UTF-8 replaced instead of thrown at.
std::string Dump(const Json& value);

}  // namespace ddp::json
