#include "operator/cli/output.h"

#include <fmt/format.h>

#include <cstdio>

#include "operator/cli/yaml_writer.h"

namespace ddp::cli {

std::string Format(const json::Json& object, const std::string& format) {
  return format == kYaml ? ToYaml(object)
                         : object.dump(2, ' ', false, json::Json::error_handler_t::replace) + "\n";
}

void Print(const json::Json& object, const std::string& format) {
  fmt::print("{}", Format(object, format));
}

}  // namespace ddp::cli
