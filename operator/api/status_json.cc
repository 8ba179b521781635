// Status ⇄ JSON. Reading is lenient: a status is ours, and a damaged field must not stop a job.
// restarts.total, replicas.summary and progress.timeLeft are written for people (columns of kubectl
// get), never read.
#include <fmt/format.h>

#include <array>

#include "operator/api/parse.h"

namespace ddp::api {
namespace {

template <typename Enum, size_t N>
Enum FromName(const std::array<Enum, N>& values, std::string_view name, Enum fallback) {
  for (const Enum value : values) {
    if (name == Name(value)) {
      return value;
    }
  }
  return fallback;
}

constexpr std::array kPhases = {Phase::kPending,    Phase::kStarting,  Phase::kRunning,
                                Phase::kRestarting, Phase::kSuspended, Phase::kSucceeded,
                                Phase::kFailed};
constexpr std::array kCauses = {Cause::kApplication, Cause::kStall, Cause::kInfrastructure,
                                Cause::kPreemption, Cause::kStartup};
constexpr std::array kStatuses = {ConditionStatus::kTrue, ConditionStatus::kFalse,
                                  ConditionStatus::kUnknown};

int IntAt(const Json& json, std::string_view field) {
  return static_cast<int>(json::GetInt(json, {field}));
}

int IntAt(const Json& json, std::string_view group, std::string_view field) {
  return static_cast<int>(json::GetInt(json, {group, field}));
}

std::optional<int> OptionalIntAt(const Json& json, std::string_view field) {
  const Json* value = json::Find(json, {field});
  return value != nullptr && value->is_number_integer() ? std::optional(value->get<int>())
                                                        : std::nullopt;
}

std::optional<int64_t> OptionalLongAt(const Json& json, std::string_view field) {
  const Json* value = json::Find(json, {field});
  return value != nullptr && value->is_number_integer() ? std::optional(value->get<int64_t>())
                                                        : std::nullopt;
}

std::optional<double> OptionalNumberAt(const Json& json, std::string_view field) {
  const Json* value = json::Find(json, {field});
  return value != nullptr && value->is_number() ? std::optional(value->get<double>())
                                                : std::nullopt;
}

std::optional<TimePoint> TimeAt(const Json& json, std::string_view field) {
  const auto time = base::ParseTime(json::GetString(json, {field}));
  return time ? std::optional(*time) : std::nullopt;
}

void PutTime(Json& json, const char* field, const std::optional<TimePoint>& time) {
  if (time) {
    json[field] = base::FormatTime(*time);
  }
}

void PutText(Json& json, const char* field, const std::string& text) {
  if (!text.empty()) {
    json[field] = text;
  }
}

template <typename T>
void Put(Json& json, const char* field, const std::optional<T>& value) {
  if (value) {
    json[field] = *value;
  }
}

Json ToJson(const Condition& condition) {
  return {{"type", condition.type},
          {"status", Name(condition.status)},
          {"observedGeneration", condition.observed_generation},
          {"lastTransitionTime", base::FormatTime(condition.last_transition_time)},
          {"reason", condition.reason},
          {"message", condition.message}};
}

Condition ConditionFromJson(const Json& json) {
  return {
      .type = json::GetString(json, {"type"}),
      .status = FromName(kStatuses, json::GetString(json, {"status"}), ConditionStatus::kUnknown),
      .observed_generation = json::GetInt(json, {"observedGeneration"}),
      .last_transition_time = TimeAt(json, "lastTransitionTime").value_or(TimePoint()),
      .reason = json::GetString(json, {"reason"}),
      .message = json::GetString(json, {"message"})};
}

Json ToJson(const Failure& failure) {
  Json json = {{"attempt", failure.attempt},
               {"rank", failure.rank},
               {"pod", failure.pod},
               {"cause", Name(failure.cause)},
               {"time", base::FormatTime(failure.time)}};
  PutText(json, "podUID", failure.pod_uid);
  PutText(json, "node", failure.node);
  PutText(json, "reason", failure.reason);
  PutText(json, "message", failure.message);
  if (failure.exit_code) {
    json["exitCode"] = *failure.exit_code;
  }
  if (failure.signal) {
    json["signal"] = *failure.signal;
  }
  return json;
}

Failure FailureFromJson(const Json& json) {
  return {.attempt = IntAt(json, "attempt"),
          .rank = IntAt(json, "rank"),
          .pod = json::GetString(json, {"pod"}),
          .pod_uid = json::GetString(json, {"podUID"}),
          .node = json::GetString(json, {"node"}),
          .exit_code = OptionalIntAt(json, "exitCode"),
          .signal = OptionalIntAt(json, "signal"),
          .reason = json::GetString(json, {"reason"}),
          .message = json::GetString(json, {"message"}),
          .cause = FromName(kCauses, json::GetString(json, {"cause"}), Cause::kApplication),
          .time = TimeAt(json, "time").value_or(TimePoint())};
}

// "45s", "12m", "3h20m", "2d4h": as kubectl writes ages.
std::string TimeLeft(int64_t seconds) {
  const int64_t minutes = seconds / 60;
  const int64_t hours = minutes / 60;
  return seconds < 120   ? fmt::format("{}s", seconds)
         : minutes < 120 ? fmt::format("{}m", minutes)
         : hours < 48    ? fmt::format("{}h{}m", hours, minutes % 60)
                         : fmt::format("{}d{}h", hours / 24, hours % 24);
}

Json ToJson(const Progress& progress) {
  Json json = {{"step", progress.step}};
  Put(json, "totalSteps", progress.total_steps);
  Put(json, "epoch", progress.epoch);
  Put(json, "percent", progress.percent);
  Put(json, "loss", progress.loss);
  Put(json, "samplesPerSecond", progress.samples_per_second);
  Put(json, "etaSeconds", progress.eta_seconds);
  Put(json, "slowestRank", progress.slowest_rank);
  PutTime(json, "lastStepTime", progress.last_step_time);
  if (progress.eta_seconds) {
    json["timeLeft"] = TimeLeft(*progress.eta_seconds);
  }
  return json;
}

Progress ProgressFromJson(const Json& json) {
  return {.step = json::GetInt(json, {"step"}),
          .total_steps = OptionalLongAt(json, "totalSteps"),
          .epoch = OptionalLongAt(json, "epoch"),
          .percent = OptionalNumberAt(json, "percent"),
          .loss = OptionalNumberAt(json, "loss"),
          .samples_per_second = OptionalNumberAt(json, "samplesPerSecond"),
          .eta_seconds = OptionalLongAt(json, "etaSeconds"),
          .slowest_rank = OptionalIntAt(json, "slowestRank"),
          .last_step_time = TimeAt(json, "lastStepTime")};
}

template <typename T>
Json ListToJson(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) {
    list.push_back(ToJson(value));
  }
  return list;
}

template <typename Read>
void ReadList(const Json& json, std::string_view field, Read read) {
  const Json* list = json::Find(json, {field});
  if (list != nullptr && list->is_array()) {
    for (const Json& item : *list) {
      read(item);
    }
  }
}

}  // namespace

Json StatusToJson(const Status& status) {
  const RestartCounts& restarts = status.restarts;
  const ReplicaCounts& replicas = status.replicas;
  Json json = {{"phase", Name(status.phase)},
               {"conditions", ListToJson(status.conditions)},
               {"observedGeneration", status.observed_generation},
               {"attempt", status.attempt},
               {"restarts",
                {{"application", restarts.application},
                 {"stall", restarts.stall},
                 {"infrastructure", restarts.infrastructure},
                 {"preemption", restarts.preemption},
                 {"startup", restarts.startup},
                 {"total", restarts.Total()}}},
               {"budget",
                {{"counted", status.budget.counted},
                 {"uncounted", status.budget.uncounted},
                 {"checkpointStep", status.budget.checkpoint_step}}},
               {"replicas",
                {{"desired", replicas.desired},
                 {"ready", replicas.ready},
                 {"active", replicas.active},
                 {"succeeded", replicas.succeeded},
                 {"failed", replicas.failed},
                 {"summary", fmt::format("{}/{}", replicas.ready, replicas.desired)}}}};
  PutText(json, "succeededRanks", status.succeeded_ranks.ToString());
  if (!status.failures.empty()) {
    json["failures"] = ListToJson(status.failures);
  }
  if (status.progress) {
    json["progress"] = ToJson(*status.progress);
  }
  if (status.checkpoint) {
    json["checkpoint"] = {{"step", status.checkpoint->step}};
    PutTime(json["checkpoint"], "time", status.checkpoint->time);
  }
  PutTime(json, "restartRequestTime", status.restart_request_time);
  PutTime(json, "startTime", status.start_time);
  PutTime(json, "completionTime", status.completion_time);
  PutTime(json, "podsCreatedTime", status.pods_created_time);
  PutTime(json, "boundTime", status.bound_time);
  PutTime(json, "runningTime", status.running_time);
  PutTime(json, "stepTime", status.step_time);
  PutTime(json, "nextAttemptTime", status.next_attempt_time);
  PutTime(json, "giveUpTime", status.give_up_time);
  return json;
}

Status StatusFromJson(const Json& json) {
  Status status;
  status.phase = FromName(kPhases, json::GetString(json, {"phase"}), Phase::kPending);
  ReadList(json, "conditions", [&status](const Json& item) {
    const Condition c = ConditionFromJson(item);
    SetCondition(status, c.type, c.status, c.reason, c.message, c.observed_generation,
                 c.last_transition_time);
  });
  status.observed_generation = json::GetInt(json, {"observedGeneration"});
  status.attempt = IntAt(json, "attempt");
  status.restarts = {.application = IntAt(json, "restarts", "application"),
                     .stall = IntAt(json, "restarts", "stall"),
                     .infrastructure = IntAt(json, "restarts", "infrastructure"),
                     .preemption = IntAt(json, "restarts", "preemption"),
                     .startup = IntAt(json, "restarts", "startup")};
  status.budget = {.counted = IntAt(json, "budget", "counted"),
                   .uncounted = IntAt(json, "budget", "uncounted"),
                   .checkpoint_step = json::GetInt(json, {"budget", "checkpointStep"}, -1)};
  status.replicas = {.desired = IntAt(json, "replicas", "desired"),
                     .ready = IntAt(json, "replicas", "ready"),
                     .active = IntAt(json, "replicas", "active"),
                     .succeeded = IntAt(json, "replicas", "succeeded"),
                     .failed = IntAt(json, "replicas", "failed")};
  if (auto ranks = RankSet::Parse(json::GetString(json, {"succeededRanks"}))) {
    status.succeeded_ranks = *std::move(ranks);
  }
  ReadList(json, "failures",
           [&status](const Json& item) { status.failures.push_back(FailureFromJson(item)); });
  if (const Json* progress = json::Find(json, {"progress"}); progress != nullptr) {
    status.progress = ProgressFromJson(*progress);
  }
  if (const Json* checkpoint = json::Find(json, {"checkpoint"}); checkpoint != nullptr) {
    status.checkpoint = {json::GetInt(*checkpoint, {"step"}), TimeAt(*checkpoint, "time")};
  }
  status.restart_request_time = TimeAt(json, "restartRequestTime");
  status.start_time = TimeAt(json, "startTime");
  status.completion_time = TimeAt(json, "completionTime");
  status.pods_created_time = TimeAt(json, "podsCreatedTime");
  status.bound_time = TimeAt(json, "boundTime");
  status.running_time = TimeAt(json, "runningTime");
  status.step_time = TimeAt(json, "stepTime");
  status.next_attempt_time = TimeAt(json, "nextAttemptTime");
  status.give_up_time = TimeAt(json, "giveUpTime");
  return status;
}

}  // namespace ddp::api
