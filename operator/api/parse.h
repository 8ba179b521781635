// DDPJob ⇄ JSON. Strict on the spec: an unknown field is an error that names its path and, if one
// is near, the field that was meant. The pod template is kept as it is, byte for byte of meaning.
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/types.h"

namespace ddp::api {

// `field` is a path ("spec.checkpoint.path"), `reason` a sentence part ("must be absolute").
struct Problem {
  std::string field;
  std::string reason;
  bool operator==(const Problem&) const = default;
};
std::string ToString(const Problem& problem);            // "spec.replicas: must be …"
std::string Join(const std::vector<Problem>& problems);  // joined with "; "

// Structure, types and defaults only; Validate() (validate.h) checks what the values mean. Status
// is read leniently: what is missing or malformed there is as if never written.
base::Result<DDPJob, std::vector<Problem>> ParseJob(const Json& object);

Json SpecToJson(const Spec& spec);
Json StatusToJson(const Status& status);
Status StatusFromJson(const Json& json);

// The fields that the types know at a path of the CRD's schema ("spec", "spec.restart", "status",
// …); empty for an unknown path. A test holds the CRD against them.
std::vector<std::string_view> FieldsAt(std::string_view path);
// Every path for which FieldsAt has an answer.
std::vector<std::string_view> FieldPaths();

}  // namespace ddp::api
