// Objects for people and scripts, on standard output.
#pragma once

#include <string>

#include "operator/json/json.h"

namespace ddp::cli {

inline constexpr const char* kText = "text";
inline constexpr const char* kYaml = "yaml";
inline constexpr const char* kJson = "json";

// `format` kYaml or kJson.
std::string Format(const json::Json& object, const std::string& format);
void Print(const json::Json& object, const std::string& format);

}  // namespace ddp::cli
