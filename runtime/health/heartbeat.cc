#include "runtime/health/heartbeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace ddp::rt::health {
namespace {

// Of what a rank has waited, so much still counts a round later: half after about seven rounds.
constexpr double kDecay = 0.9;
// Ranks whose waiting differs less than this over the last rounds are equally quick.
constexpr double kNoticeableSeconds = 0.1;
// Three heartbeats.
constexpr double kSilentSeconds = 3;

}  // namespace

std::string FormatBeat(const Beat& beat) {
  return fmt::format("{} {} {} {} {}", beat.step, beat.time, beat.wait_seconds, beat.busy_seconds,
                     static_cast<int>(beat.phase));
}

std::optional<Beat> ParseBeat(std::string_view text) {
  Beat beat;
  const char* at = text.data();
  const char* end = at + text.size();
  const auto read = [&](auto& value) {
    const auto [stop, error] = std::from_chars(at, end, value);
    at = stop != end && *stop == ' ' ? stop + 1 : stop;
    return error == std::errc();
  };
  size_t phase = 0;
  if (read(beat.step) && read(beat.time) && read(beat.wait_seconds) && read(beat.busy_seconds) &&
      read(phase) && at == end && phase < train::kPhaseNames.size()) {
    beat.phase = static_cast<train::Phase>(phase);
    return beat;
  }
  return std::nullopt;
}

int64_t FurthestStep(const std::vector<std::optional<Beat>>& beats) {
  int64_t furthest = 0;
  for (const auto& beat : beats) {
    furthest = std::max(furthest, beat ? beat->step : 0);
  }
  return furthest;
}

std::string Whereabouts(const std::vector<std::optional<Beat>>& beats, double now) {
  constexpr size_t kFew = 8;
  const int64_t furthest = FurthestStep(beats);
  std::string text;
  size_t left_out = 0;
  for (size_t rank = 0; rank < beats.size(); ++rank) {
    const auto& beat = beats[rank];
    const bool silent = !beat || now - beat->time > kSilentSeconds;
    if (beats.size() > kFew && !silent && beat->step == furthest) {
      ++left_out;
      continue;
    }
    text += fmt::format("{}rank {}: ", text.empty() ? "" : "; ", rank);
    text += !beat ? "never heard of"
                  : fmt::format("step {}, {}, heard of {:.1f} s ago{}", beat->step,
                                train::PhaseName(beat->phase), now - beat->time,
                                silent ? " (silent)" : "");
  }
  if (left_out > 0) {
    text += fmt::format("{}{} ranks at step {}", text.empty() ? "" : "; ", left_out, furthest);
  }
  return text;
}

void SlowestRank::Update(const std::vector<std::optional<Beat>>& beats) {
  const bool first = last_.empty();
  last_.resize(beats.size());
  recent_.resize(beats.size());
  for (size_t rank = 0; rank < beats.size(); ++rank) {
    const double now = beats[rank] ? beats[rank]->wait_seconds : last_[rank];
    if (!first) {
      recent_[rank] = kDecay * recent_[rank] + now - last_[rank];
    }
    last_[rank] = now;
  }
  const auto [least, most] = std::minmax_element(recent_.begin(), recent_.end());
  const bool noticeable = least != recent_.end() && *most - *least > kNoticeableSeconds;
  rank_ = noticeable ? static_cast<int>(least - recent_.begin()) : -1;
}

Heartbeat::Heartbeat(store::Store& store, int rank, int world_size, const train::Board& board,
                     std::chrono::milliseconds interval)
    : store_(store),
      rank_(rank),
      world_size_(world_size),
      board_(board),
      interval_(interval),
      thread_([this] { Run(); }) {}

Heartbeat::~Heartbeat() { Stop(); }

void Heartbeat::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

Heartbeat::Ranks Heartbeat::ranks() const {
  const std::lock_guard lock(mutex_);
  return ranks_;
}

void Heartbeat::Run() {
  try {
    bool stop = false;
    while (!stop) {
      BeatOnce();
      std::unique_lock lock(mutex_);
      stop = stopping_.wait_for(lock, interval_, [this] { return stop_; });
    }
  } catch (const std::exception& e) {
    // The store went with rank 0; the collectives notice that too, and end the run with the cause.
    Log(Level::kWarning, "no more heartbeats: {}", e.what());
  }
}

void Heartbeat::BeatOnce() {
  const double waited = board_.wait_seconds;
  const Beat mine{.step = board_.step,
                  .time = train::UnixTime(),
                  .wait_seconds = waited,
                  .busy_seconds = std::max(0.0, board_.step_seconds.sum() - waited),
                  .phase = board_.phase};
  store_.Set(Key(rank_), FormatBeat(mine));
  if (rank_ != 0) {
    return;
  }
  Ranks ranks;
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto text = store_.TryGet(Key(rank));
    ranks.beats.push_back(text ? ParseBeat(*text) : std::nullopt);
  }
  slowest_.Update(ranks.beats);
  ranks.slowest = slowest_.rank();
  const std::lock_guard lock(mutex_);
  ranks_ = std::move(ranks);
}

std::string Heartbeat::Key(int rank) const { return fmt::format("heartbeat/{}", rank); }

}  // namespace ddp::rt::health
