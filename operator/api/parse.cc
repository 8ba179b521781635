// Spec and metadata from JSON. Status is in status_json.cc.
#include "operator/api/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "operator/api/text.h"

namespace ddp::api {
namespace {

using Fields = std::vector<std::string_view>;

// The schema's object paths and their fields: what the parser accepts and what the CRD must list.
const std::map<std::string_view, Fields>& Schema() {
  static const std::map<std::string_view, Fields> schema = {
      {"", {"apiVersion", "kind", "metadata", "spec", "status"}},
      {"spec", {"checkpoint", "progress", "rendezvous", "replicas", "restart", "shm", "template"}},
      {"spec.checkpoint", {"claimName", "mount", "path"}},
      {"spec.progress", {"port"}},
      {"spec.rendezvous", {"port"}},
      {"spec.restart",
       {"backoffSeconds", "gracePeriodSeconds", "maxBackoffSeconds", "maxRestarts",
        "maxUncountedRestarts"}},
      {"spec.shm", {"size"}},
      {"spec.template", {"metadata", "spec"}},
      {"status",
       {"attempt", "budget", "completionTime", "conditions", "failures", "giveUpTime",
        "nextAttemptTime", "observedGeneration", "phase", "podsCreatedTime", "replicas", "restarts",
        "runningTime", "startTime", "succeededRanks"}},
      {"status.budget", {"counted", "uncounted"}},
      {"status.conditions",
       {"lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"}},
      {"status.failures",
       {"attempt", "cause", "exitCode", "message", "node", "pod", "podUID", "rank", "reason",
        "signal", "time"}},
      {"status.replicas", {"active", "desired", "failed", "ready", "succeeded", "summary"}},
      {"status.restarts", {"application", "infrastructure", "preemption", "startup", "total"}},
  };
  return schema;
}

std::string Child(std::string_view path, std::string_view field) {
  return path.empty() ? std::string(field) : fmt::format("{}.{}", path, field);
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

// Reads the fields of one object and notes what is wrong with them.
class ObjectReader {
 public:
  ObjectReader(const Json& parent, std::string_view field, std::string_view path,
               std::vector<Problem>& problems)
      : path_(path), problems_(problems) {
    const auto it = field.empty() ? parent.end() : parent.find(field);
    const Json* found = field.empty() ? &parent : it == parent.end() ? nullptr : &*it;
    if (found == nullptr || found->is_null()) {
      return;
    }
    if (!found->is_object()) {
      Note(path_, fmt::format("must be an object, not {}", TypeOf(*found)));
      return;
    }
    object_ = found;
    CheckFields();
  }

  bool present() const { return object_ != nullptr; }
  const Json& object() const { return *object_; }

  const Json* Get(std::string_view field) const {
    if (object_ == nullptr) {
      return nullptr;
    }
    const auto it = object_->find(field);
    return it == object_->end() || it->is_null() ? nullptr : &*it;
  }

  void Int(std::string_view field, int& out) {
    const Json* value = Get(field);
    if (value == nullptr) {
      return;
    }
    if (!value->is_number_integer()) {
      Note(Child(path_, field), fmt::format("must be a whole number, not {}", TypeOf(*value)));
      return;
    }
    // What does not fit an int is out of every range too: clamped, then refused by Validate().
    out = static_cast<int>(std::clamp<int64_t>(
        value->is_number_unsigned() && value->get<uint64_t>() > INT32_MAX ? INT32_MAX
                                                                          : value->get<int64_t>(),
        INT32_MIN, INT32_MAX));
  }

  void Text(std::string_view field, std::string& out) {
    const Json* value = Get(field);
    if (value == nullptr) {
      return;
    }
    if (!value->is_string()) {
      Note(Child(path_, field),
           fmt::format("must be text, not {}: put it in quotes", TypeOf(*value)));
      return;
    }
    out = value->get<std::string>();
  }

  void Require(std::string_view field, std::string_view what) {
    if (Get(field) == nullptr) {
      Note(Child(path_, field), fmt::format("is missing: {}", what));
    }
  }

  void Note(std::string field, std::string reason) {
    problems_.push_back({std::move(field), std::move(reason)});
  }

 private:
  void CheckFields() {
    const auto known = Schema().find(path_);
    if (known == Schema().end()) {
      return;
    }
    for (const auto& [name, value] : object_->items()) {
      if (std::find(known->second.begin(), known->second.end(), name) == known->second.end()) {
        const std::string_view meant = Nearest(name, known->second);
        Note(Child(path_, name),
             meant.empty()
                 ? fmt::format("unknown field; known here: {}", fmt::join(known->second, ", "))
                 : fmt::format("unknown field; did you mean '{}'?", meant));
      }
    }
  }

  const Json* object_ = nullptr;
  std::string path_;
  std::vector<Problem>& problems_;
};

std::optional<TimePoint> TimeAt(const Json& object, std::string_view field) {
  const auto time = base::ParseTime(json::GetString(object, {field}));
  return time ? std::optional(*time) : std::nullopt;
}

Metadata ReadMetadata(const Json& object, std::vector<Problem>& problems) {
  Metadata metadata;
  const Json* json = json::Find(object, {"metadata"});
  if (json == nullptr || !json->is_object()) {
    problems.push_back({"metadata", "is missing: give at least metadata.name"});
    return metadata;
  }
  metadata.name = json::GetString(*json, {"name"});
  metadata.namespace_name = json::GetString(*json, {"namespace"}, "default");
  metadata.uid = json::GetString(*json, {"uid"});
  metadata.resource_version = json::GetString(*json, {"resourceVersion"});
  metadata.generation = json::GetInt(*json, {"generation"});
  metadata.creation_time = TimeAt(*json, "creationTimestamp");
  metadata.deletion_time = TimeAt(*json, "deletionTimestamp");
  if (metadata.name.empty()) {
    problems.push_back({"metadata.name", "is missing: name the job"});
  }
  return metadata;
}

void ReadCheckpoint(ObjectReader& spec, Spec& out, std::vector<Problem>& problems) {
  ObjectReader reader(spec.object(), "checkpoint", "spec.checkpoint", problems);
  if (!reader.present()) {
    return;
  }
  Checkpoint& checkpoint = out.checkpoint.emplace();
  reader.Require("path", "the folder in the pod where the claim is mounted");
  reader.Text("path", checkpoint.path);
  reader.Require("claimName", "the PersistentVolumeClaim that keeps the checkpoints");
  reader.Text("claimName", checkpoint.claim_name);
  std::string mount = "Rank0";
  reader.Text("mount", mount);
  if (mount != "Rank0" && mount != "All") {
    reader.Note("spec.checkpoint.mount", fmt::format("must be Rank0 or All, not '{}'", mount));
  }
  checkpoint.mount = mount == "All" ? CheckpointMount::kAll : CheckpointMount::kRank0;
}

void ReadRestart(ObjectReader& spec, Spec& out, std::vector<Problem>& problems) {
  Restart& restart = out.restart;
  restart.grace_period_seconds = static_cast<int>(
      std::clamp<int64_t>(json::GetInt(out.pod_template, {"spec", "terminationGracePeriodSeconds"},
                                       kKubernetesGraceSeconds),
                          0, kDefaultGraceSeconds));
  ObjectReader reader(spec.object(), "restart", "spec.restart", problems);
  reader.Int("maxRestarts", restart.max_restarts);
  reader.Int("maxUncountedRestarts", restart.max_uncounted_restarts);
  reader.Int("backoffSeconds", restart.backoff_seconds);
  reader.Int("maxBackoffSeconds", restart.max_backoff_seconds);
  reader.Int("gracePeriodSeconds", restart.grace_period_seconds);
}

Spec ReadSpec(const Json& object, std::vector<Problem>& problems) {
  Spec spec;
  ObjectReader reader(object, "spec", "spec", problems);
  if (!reader.present()) {
    problems.push_back({"spec", "is missing: give spec.replicas and spec.template"});
    return spec;
  }
  reader.Require("replicas", "how many ranks train");
  reader.Int("replicas", spec.replicas);
  reader.Require("template", "the pod that each rank runs in");
  const ObjectReader pod_template(reader.object(), "template", "spec.template", problems);
  if (pod_template.present()) {
    spec.pod_template = pod_template.object();
  }
  ObjectReader rendezvous(reader.object(), "rendezvous", "spec.rendezvous", problems);
  rendezvous.Int("port", spec.rendezvous_port);
  ReadCheckpoint(reader, spec, problems);
  ReadRestart(reader, spec, problems);
  ObjectReader progress(reader.object(), "progress", "spec.progress", problems);
  progress.Int("port", spec.progress_port);
  ObjectReader shm(reader.object(), "shm", "spec.shm", problems);
  shm.Text("size", spec.shm_size);
  return spec;
}

}  // namespace

std::string ToString(const Problem& problem) {
  return fmt::format("{}: {}", problem.field, problem.reason);
}

std::string Join(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    text += text.empty() ? "" : "; ";
    text += ToString(problem);
  }
  return text;
}

base::Result<DDPJob, std::vector<Problem>> ParseJob(const Json& object) {
  std::vector<Problem> problems;
  if (!object.is_object()) {
    problems.push_back({"(document)", fmt::format("must be an object, not {}", TypeOf(object))});
    return problems;
  }
  const ObjectReader top(object, "", "", problems);
  if (const auto version = json::GetString(object, {"apiVersion"}); version != kApiVersion) {
    problems.push_back({"apiVersion", fmt::format("must be {}, not '{}'", kApiVersion, version)});
  }
  if (const auto kind = json::GetString(object, {"kind"}); kind != kKind) {
    problems.push_back({"kind", fmt::format("must be {}, not '{}'", kKind, kind)});
  }
  DDPJob job;
  job.metadata = ReadMetadata(object, problems);
  job.spec = ReadSpec(object, problems);
  if (!problems.empty()) {
    return problems;
  }
  if (const Json* status = json::Find(object, {"status"}); status != nullptr) {
    job.status = StatusFromJson(*status);
  }
  return job;
}

Json SpecToJson(const Spec& spec) {
  Json json = {
      {"replicas", spec.replicas},
      {"template", spec.pod_template},
      {"rendezvous", {{"port", spec.rendezvous_port}}},
      {"restart",
       {{"maxRestarts", spec.restart.max_restarts},
        {"maxUncountedRestarts", spec.restart.max_uncounted_restarts},
        {"backoffSeconds", spec.restart.backoff_seconds},
        {"maxBackoffSeconds", spec.restart.max_backoff_seconds},
        {"gracePeriodSeconds", spec.restart.grace_period_seconds}}},
      {"progress", {{"port", spec.progress_port}}},
      {"shm", {{"size", spec.shm_size}}},
  };
  if (spec.checkpoint) {
    json["checkpoint"] = {
        {"path", spec.checkpoint->path},
        {"claimName", spec.checkpoint->claim_name},
        {"mount", spec.checkpoint->mount == CheckpointMount::kAll ? "All" : "Rank0"}};
  }
  return json;
}

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

}  // namespace ddp::api
