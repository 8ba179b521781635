#include "operator/ddpjob/schema_testing.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace ddp::job::testing {
namespace {

using json::Json;

// What a structural schema leaves out it drops; said in JSON Schema's words.
void CloseObjects(Json& schema) {
  if (!schema.is_object()) {
    return;
  }
  const bool open = json::GetBool(schema, {"x-kubernetes-preserve-unknown-fields"}) ||
                    schema.contains("additionalProperties");
  if (schema.contains("properties") && !open) {
    schema["additionalProperties"] = false;
  }
  if (schema.contains("properties")) {
    for (auto& [name, child] : schema["properties"].items()) {
      CloseObjects(child);
    }
  }
  for (const char* key : {"items", "additionalProperties"}) {
    if (schema.contains(key)) {
      CloseObjects(schema[key]);
    }
  }
}

Json LoadSchema() {
  std::ifstream file(DDP_SOURCE_DIR "/manifests/crd/ddpjob.yaml");
  std::ostringstream text;
  text << file.rdbuf();
  const Json crd = json::ParseYaml(text.str()).value().at(0);
  Json schema = crd.at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema");
  CloseObjects(schema);
  return schema;
}

std::unique_ptr<valijson::Schema> Compile(const Json& schema) {
  auto compiled = std::make_unique<valijson::Schema>();
  valijson::SchemaParser parser;
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema), *compiled);
  return compiled;
}

}  // namespace

std::vector<std::string> SchemaErrors(const Json& ddpjob) {
  static const Json source = LoadSchema();
  static const std::unique_ptr<valijson::Schema> schema = Compile(source);
  valijson::Validator validator;
  valijson::ValidationResults results;
  validator.validate(*schema, valijson::adapters::NlohmannJsonAdapter(ddpjob), &results);
  std::vector<std::string> errors;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    std::string place;
    for (const std::string& part : error.context) {
      place += part;
    }
    errors.push_back(fmt::format("{}: {}", place, error.description));
  }
  return errors;
}

}  // namespace ddp::job::testing
