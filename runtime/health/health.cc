#include "runtime/health/health.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/health/metrics.h"
#include "runtime/health/progress.h"

namespace ddp::rt::health {
namespace {

const Heartbeat::Ranks* Pointer(const std::optional<Heartbeat::Ranks>& ranks) {
  return ranks ? &*ranks : nullptr;
}

}  // namespace

Health::Health(const train::Board& board, int port) : board_(board) {
  server_ = Server::Start(
      port, {{"/metrics",
              [this] {
                return Answer{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                              .body = FormatMetrics(board_, Pointer(RanksNow()))};
              }},
             {"/progress",
              [this] {
                return Answer{.content_type = "application/json",
                              .body = FormatProgress(board_, Pointer(RanksNow()))};
              }},
             {"/healthz", [] { return Answer{.body = "ok\n"}; }},
             {"/readyz", [this] { return Ready(); }}});
  if (server_) {
    Log(Level::kInfo, "serving /metrics and /progress port={}", server_->port());
  }
}

void Health::Connect(store::Store& store, int rank, int world_size) {
  auto heartbeat = std::make_unique<Heartbeat>(store, rank, world_size, board_);
  const std::lock_guard lock(mutex_);
  heartbeat_ = std::move(heartbeat);
  lists_ranks_ = rank == 0;
}

void Health::Disconnect() {
  std::unique_ptr<Heartbeat> heartbeat;
  {
    const std::lock_guard lock(mutex_);
    heartbeat = std::move(heartbeat_);
  }
}

void Health::TellWhereabouts() const {
  if (const auto ranks = RanksNow(); ranks && !ranks->beats.empty()) {
    Log(Level::kWarning, "{}", Whereabouts(ranks->beats, train::UnixTime()));
  }
}

std::optional<Heartbeat::Ranks> Health::RanksNow() const {
  const std::lock_guard lock(mutex_);
  if (heartbeat_ == nullptr || !lists_ranks_) {
    return std::nullopt;
  }
  return heartbeat_->ranks();
}

Answer Health::Ready() const {
  switch (board_.phase.load()) {
    case train::Phase::kTraining:
    case train::Phase::kEvaluating:
    case train::Phase::kSaving:
      return {.body = "training\n"};
    case train::Phase::kStopping:
      return {.status = 503, .body = "stopping\n"};
    case train::Phase::kStarting:
      break;
  }
  return {.status = 503, .body = "waiting for the other ranks\n"};
}

}  // namespace ddp::rt::health
