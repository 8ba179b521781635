#include "operator/ddpjob/progress/read_progress.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "operator/json/json.h"

namespace ddp::job {
namespace {

using base::Error;
using base::ErrorCode;
using json::Json;

// Whole numbers up to here are exact in every JSON reader.
constexpr int64_t kLargest = int64_t{1} << 53;
constexpr double kLongestEta = 10.0 * 365 * 24 * 3600;
// Years that every reader of RFC 3339 agrees on.
constexpr api::TimePoint kEarliest{std::chrono::sys_days{std::chrono::January / 1 / 1970}};
constexpr api::TimePoint kLatest{std::chrono::sys_days{std::chrono::January / 1 / 9999}};

std::optional<double> NumberAt(const Json& object, std::string_view field) {
  const Json* value = json::Find(object, {field});
  if (value == nullptr || !value->is_number()) {
    return std::nullopt;
  }
  const auto number = value->get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

// A whole number from 0 on; 12.0 is one too.
std::optional<int64_t> CountAt(const Json& object, std::string_view field) {
  const auto number = NumberAt(object, field);
  if (!number || *number < 0 || *number > static_cast<double>(kLargest) ||
      *number != std::floor(*number)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*number);
}

std::optional<api::TimePoint> TimeAt(const Json& object, std::string_view field) {
  const auto time = base::ParseTime(json::GetString(object, {field}));
  if (!time || *time < kEarliest || *time >= kLatest) {
    return std::nullopt;
  }
  return std::chrono::floor<std::chrono::seconds>(*time);
}

std::optional<double> Percent(const Json& object, const api::Progress& progress) {
  std::optional<double> percent = NumberAt(object, "percent");
  if (!percent && progress.total_steps && *progress.total_steps > 0) {
    percent =
        100.0 * static_cast<double>(progress.step) / static_cast<double>(*progress.total_steps);
  }
  return percent ? std::optional(std::clamp(*percent, 0.0, 100.0)) : std::nullopt;
}

std::optional<int64_t> Eta(const Json& object) {
  const auto eta = NumberAt(object, "etaSeconds");
  return eta ? std::optional(static_cast<int64_t>(std::ceil(std::clamp(*eta, 0.0, kLongestEta))))
             : std::nullopt;
}

std::optional<int> RankAt(const Json& object, std::string_view field) {
  const auto rank = CountAt(object, field);
  return rank && *rank < std::numeric_limits<int>::max() ? std::optional(static_cast<int>(*rank))
                                                         : std::nullopt;
}

std::optional<api::CheckpointState> Checkpoint(const Json& object) {
  const Json* checkpoint = json::Find(object, {"checkpoint"});
  if (checkpoint == nullptr) {
    return std::nullopt;
  }
  const auto step = CountAt(*checkpoint, "step");
  return step ? std::optional(api::CheckpointState{*step, TimeAt(*checkpoint, "time")})
              : std::nullopt;
}

std::vector<RankProgress> Ranks(const Json& object) {
  std::vector<RankProgress> ranks;
  const Json* list = json::Find(object, {"ranks"});
  if (list == nullptr || !list->is_array()) {
    return ranks;
  }
  for (const Json& each : *list) {
    const auto rank = each.is_object() ? RankAt(each, "rank") : std::nullopt;
    const auto step = each.is_object() ? CountAt(each, "step") : std::nullopt;
    if (rank && step) {
      ranks.push_back({*rank, *step, NumberAt(each, "waitSeconds"), TimeAt(each, "lastHeartbeat")});
    }
  }
  return ranks;
}

}  // namespace

base::Result<ProgressReply> ReadProgress(std::string_view text) {
  const auto json = json::Parse(text);
  if (!json) {
    return Error{ErrorCode::kInvalid, "the answer is not JSON"};
  }
  const auto step = json->is_object() ? CountAt(*json, "step") : std::nullopt;
  if (!step) {
    return Error{ErrorCode::kInvalid, "the answer has no 'step' that is a whole number"};
  }
  ProgressReply reply;
  reply.progress.step = *step;
  reply.progress.total_steps = CountAt(*json, "totalSteps");
  reply.progress.epoch = CountAt(*json, "epoch");
  reply.progress.percent = Percent(*json, reply.progress);
  reply.progress.loss = NumberAt(*json, "loss");
  reply.progress.samples_per_second = NumberAt(*json, "samplesPerSecond");
  reply.progress.eta_seconds = Eta(*json);
  reply.progress.slowest_rank = RankAt(*json, "slowestRank");
  reply.progress.last_step_time = TimeAt(*json, "lastStepTime");
  reply.epochs = CountAt(*json, "epochs");
  reply.checkpoint = Checkpoint(*json);
  reply.ranks = Ranks(*json);
  return reply;
}

}  // namespace ddp::job
