#include "operator/api/object_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "operator/api/text.h"

namespace ddp::api {
namespace {

using Fields = std::vector<std::string_view>;

// The schema's object paths and their fields: what the parser accepts and what the CRD must list.
const std::map<std::string_view, Fields>& Schema() {
  static const std::map<std::string_view, Fields> schema = {
      {"", {"apiVersion", "kind", "metadata", "spec", "status"}},
      {"spec",
       {"activeDeadlineSeconds", "checkpoint", "cleanPodPolicy", "managedBy", "processesPerReplica",
        "progress", "rendezvous", "replicas", "restart", "scheduling", "shm",
        "startupTimeoutSeconds", "suspend", "template", "ttlSecondsAfterFinished"}},
      {"spec.checkpoint", {"claimName", "claimTemplate", "mount", "path", "retain"}},
      {"spec.checkpoint.claimTemplate", {"metadata", "spec"}},
      {"spec.checkpoint.claimTemplate.metadata", {"annotations", "labels"}},
      {"spec.progress", {"onStall", "port", "stallTimeoutSeconds"}},
      {"spec.rendezvous", {"port"}},
      {"spec.restart",
       {"backoffSeconds", "gracePeriodSeconds", "maxBackoffSeconds", "maxRestarts",
        "maxUncountedRestarts", "rules"}},
      {"spec.restart.rules", {"action", "exitCodes", "reasons"}},
      {"spec.scheduling", {"gang", "queue", "topologyKey", "topologyMode"}},
      {"spec.shm", {"size"}},
      {"spec.template", {"metadata", "spec"}},
      {"status",
       {"attempt",    "boundTime",       "budget",     "checkpoint",      "completionTime",
        "conditions", "failures",        "giveUpTime", "nextAttemptTime", "observedGeneration",
        "phase",      "podsCreatedTime", "progress",   "replicas",        "restartRequestTime",
        "restarts",   "runningTime",     "startTime",  "stepTime",        "succeededRanks"}},
      {"status.budget", {"checkpointStep", "counted", "uncounted"}},
      {"status.checkpoint", {"step", "time"}},
      {"status.conditions",
       {"lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"}},
      {"status.failures",
       {"attempt", "cause", "exitCode", "message", "node", "pod", "podUID", "rank", "reason",
        "signal", "time"}},
      {"status.progress",
       {"epoch", "etaSeconds", "lastStepTime", "loss", "percent", "samplesPerSecond", "slowestRank",
        "step", "timeLeft", "totalSteps"}},
      {"status.replicas", {"active", "desired", "failed", "ready", "succeeded", "summary"}},
      {"status.restarts",
       {"application", "infrastructure", "preemption", "stall", "startup", "total"}},
  };
  return schema;
}

std::string Child(std::string_view path, std::string_view field) {
  return path.empty() || field.empty() ? fmt::format("{}{}", path, field)
                                       : fmt::format("{}.{}", path, field);
}

const char* TypeOf(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "empty";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "text";
    case Json::value_t::boolean:
      return "true or false";
    default:
      return value.is_number_integer() ? "a whole number" : "a number with a fraction";
  }
}

// The field that was probably meant: at most a third of its letters differ.
std::string_view Nearest(std::string_view name, const Fields& fields) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string_view field : fields) {
    const size_t distance = EditDistance(name, field, best_distance);
    if (distance < best_distance) {
      best = field;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace

std::vector<std::string_view> FieldsAt(std::string_view path) {
  const auto it = Schema().find(path);
  return it == Schema().end() ? Fields{} : it->second;
}

std::vector<std::string_view> FieldPaths() {
  Fields paths;
  for (const auto& [path, fields] : Schema()) {
    paths.push_back(path);
  }
  return paths;
}

ObjectReader::ObjectReader(const Json& parent, std::string_view field, std::string_view path,
                           std::vector<Problem>& problems)
    : schema_path_(path), path_(path), problems_(problems) {
  const auto it = field.empty() ? parent.end() : parent.find(field);
  const Json* found = field.empty() ? &parent : it == parent.end() ? nullptr : &*it;
  if (found != nullptr && !found->is_null()) {
    Take(*found);
  }
}

ObjectReader::ObjectReader(std::vector<Problem>& problems, const Json& item,
                           std::string_view schema_path, std::string shown_path)
    : schema_path_(schema_path), path_(std::move(shown_path)), problems_(problems) {
  Take(item);
}

void ObjectReader::Take(const Json& found) {
  if (!found.is_object()) {
    Note("", fmt::format("must be an object, not {}", TypeOf(found)));
    return;
  }
  object_ = &found;
  CheckFields();
}

const Json* ObjectReader::Get(std::string_view field) const {
  if (object_ == nullptr) {
    return nullptr;
  }
  const auto it = object_->find(field);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

std::optional<int> ObjectReader::ToInt(const Json& value, const std::string& field) {
  if (!value.is_number_integer()) {
    Note(field, fmt::format("must be a whole number, not {}", TypeOf(value)));
    return std::nullopt;
  }
  // What does not fit an int is out of every range too: clamped, then refused by Validate().
  return static_cast<int>(std::clamp<int64_t>(
      value.is_number_unsigned() && value.get<uint64_t>() > INT32_MAX ? INT32_MAX
                                                                      : value.get<int64_t>(),
      INT32_MIN, INT32_MAX));
}

void ObjectReader::Int(std::string_view field, int& out) {
  if (const Json* value = Get(field); value != nullptr) {
    out = ToInt(*value, std::string(field)).value_or(out);
  }
}

void ObjectReader::Int(std::string_view field, std::optional<int>& out) {
  if (const Json* value = Get(field); value != nullptr) {
    out = ToInt(*value, std::string(field));
  }
}

void ObjectReader::Text(std::string_view field, std::string& out) {
  const Json* value = Get(field);
  if (value == nullptr) {
    return;
  }
  if (!value->is_string()) {
    Note(field, fmt::format("must be text, not {}: put it in quotes", TypeOf(*value)));
    return;
  }
  out = value->get<std::string>();
}

void ObjectReader::Bool(std::string_view field, bool& out) {
  const Json* value = Get(field);
  if (value == nullptr) {
    return;
  }
  if (!value->is_boolean()) {
    Note(field, fmt::format("must be true or false, not {}", TypeOf(*value)));
    return;
  }
  out = value->get<bool>();
}

const Json* ObjectReader::ListAt(std::string_view field) {
  const Json* list = Get(field);
  if (list != nullptr && !list->is_array()) {
    Note(field, fmt::format("must be a list, not {}", TypeOf(*list)));
    return nullptr;
  }
  return list;
}

void ObjectReader::Ints(std::string_view field, std::vector<int>& out) {
  const Json* list = ListAt(field);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (const auto value = ToInt((*list)[i], fmt::format("{}[{}]", field, i))) {
      out.push_back(*value);
    }
  }
}

void ObjectReader::Texts(std::string_view field, std::vector<std::string>& out) {
  const Json* list = ListAt(field);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if ((*list)[i].is_string()) {
      out.push_back((*list)[i].get<std::string>());
    } else {
      Note(fmt::format("{}[{}]", field, i),
           fmt::format("must be text, not {}: put it in quotes", TypeOf((*list)[i])));
    }
  }
}

void ObjectReader::Require(std::string_view field, std::string_view what) {
  if (Get(field) == nullptr) {
    Note(field, fmt::format("is missing: {}", what));
  }
}

void ObjectReader::Note(std::string_view field, std::string reason) {
  problems_.push_back({Child(path_, field), std::move(reason)});
}

void ObjectReader::CheckFields() {
  const auto known = Schema().find(schema_path_);
  if (known == Schema().end()) {
    return;
  }
  for (const auto& [name, value] : object_->items()) {
    if (std::find(known->second.begin(), known->second.end(), name) == known->second.end()) {
      const std::string_view meant = Nearest(name, known->second);
      Note(name, meant.empty()
                     ? fmt::format("unknown field; known here: {}", fmt::join(known->second, ", "))
                     : fmt::format("unknown field; did you mean '{}'?", meant));
    }
  }
}

}  // namespace ddp::api
