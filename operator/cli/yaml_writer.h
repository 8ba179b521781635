// JSON → YAML text for people. Safe: whatever could be read as another type or break a line is
// quoted, so that reading the text gives the same value back. Pure.
#pragma once

#include <string>

#include "operator/json/json.h"

namespace ddp::cli {

std::string ToYaml(const json::Json& value);

}  // namespace ddp::cli
