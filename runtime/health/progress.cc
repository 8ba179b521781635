#include "runtime/health/progress.h"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace ddp::rt::health {
namespace {

// Keys in the order written here.
using Json = nlohmann::ordered_json;

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// RFC 3339 in UTC, as Kubernetes writes times; null for none.
Json Time(double unix_time) {
  if (!std::isfinite(unix_time) || unix_time <= 0) {
    return nullptr;
  }
  const auto seconds = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, length);
}

Json Eta(const train::Board& board) {
  const int64_t step = board.step;
  const double speed = board.samples_per_second;
  const double per_step = board.samples_per_step;
  if (speed <= 0) {
    return nullptr;
  }
  return Number(static_cast<double>(board.total_steps - step) * per_step / speed);
}

Json Ranks(const Heartbeat::Ranks& ranks) {
  const int64_t furthest = FurthestStep(ranks.beats);
  Json list = Json::array();
  for (size_t rank = 0; rank < ranks.beats.size(); ++rank) {
    Json entry = {{"rank", rank}};
    if (const auto& beat = ranks.beats[rank]) {
      entry["step"] = beat->step;
      entry["lag"] = furthest - beat->step;
      entry["lastHeartbeat"] = Time(beat->time);
      entry["waitSeconds"] = Number(beat->wait_seconds);
      entry["busySeconds"] = Number(beat->busy_seconds);
      entry["phase"] = train::PhaseName(beat->phase);
    } else {
      for (const char* key :
           {"step", "lag", "lastHeartbeat", "waitSeconds", "busySeconds", "phase"}) {
        entry[key] = nullptr;
      }
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string FormatProgress(const train::Board& board, const Heartbeat::Ranks* ranks) {
  const int64_t step = board.step;
  const int64_t total = board.total_steps;
  Json json = {
      {"step", step},
      {"totalSteps", total},
      {"epoch", board.epoch.load()},
      {"epochs", board.epochs.load()},
      {"percent", total > 0 ? Number(100.0 * static_cast<double>(step) / static_cast<double>(total))
                            : Json(nullptr)},
      {"loss", Number(board.loss)},
      {"samplesPerSecond", Number(board.samples_per_second)},
      {"etaSeconds", Eta(board)},
      {"slowestRank",
       ranks != nullptr && ranks->slowest >= 0 ? Json(ranks->slowest) : Json(nullptr)},
      {"lastStepTime", Time(board.last_step_time)},
      {"evalAccuracy", Number(board.eval_accuracy)},
      {"evalLoss", Number(board.eval_loss)},
      {"phase", train::PhaseName(board.phase)},
  };
  if (const auto saved = board.checkpoint(); saved.step >= 0) {
    json["checkpoint"] = {{"step", saved.step}, {"time", Time(saved.time)}, {"path", saved.path}};
  } else {
    json["checkpoint"] = nullptr;
  }
  if (ranks != nullptr) {
    json["ranks"] = Ranks(*ranks);
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddp::rt::health
