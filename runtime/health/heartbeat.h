// Each rank says through the store, once a second, that it lives and where it is; rank 0 reads what
// all say. Apart from the training thread, so a rank that hangs in a step still beats, and one that
// is stopped or gone does not: the difference tells a slow rank from a dead one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/store/store.h"
#include "runtime/train/board.h"

namespace ddp::rt::health {

struct Beat {
  int64_t step = 0;
  double time = 0;          // UnixTime of the sender
  double wait_seconds = 0;  // so far, in collectives for the last rank to come
  double busy_seconds = 0;  // so far, in steps, without the waiting
  train::Phase phase = train::Phase::kStarting;
};

std::string FormatBeat(const Beat& beat);
std::optional<Beat> ParseBeat(std::string_view text);

// The most steps that a rank has done; 0 if none is known.
int64_t FurthestStep(const std::vector<std::optional<Beat>>& beats);

// Which rank the others wait for: the one that waits least itself, judged by recent waiting.
// Fed with the beats of all ranks, in the order of ranks; "no rank" (-1) before the second round or
// when the ranks hardly differ. Not thread-safe.
class SlowestRank {
 public:
  void Update(const std::vector<std::optional<Beat>>& beats);
  int rank() const { return rank_; }

 private:
  std::vector<double> last_;    // wait_seconds of the round before
  std::vector<double> recent_;  // decaying sum of the waiting since
  int rank_ = -1;
};

// Where every rank was, in a sentence: of many only those that are behind or silent. `now` is
// UnixTime.
std::string Whereabouts(const std::vector<std::optional<Beat>>& beats, double now);

class Heartbeat {
 public:
  // The store must outlive this object, or at least Stop.
  Heartbeat(store::Store& store, int rank, int world_size, const train::Board& board,
            std::chrono::milliseconds interval = std::chrono::seconds(1));
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Beats a last time and ends the thread. The second call does nothing.
  void Stop();

  struct Ranks {
    std::vector<std::optional<Beat>> beats;  // of all ranks; on ranks but 0 empty
    int slowest = -1;
  };
  // As last read. Thread-safe.
  Ranks ranks() const;

 private:
  void Run();
  void BeatOnce();
  std::string Key(int rank) const;

  store::Store& store_;
  int rank_;
  int world_size_;
  const train::Board& board_;
  std::chrono::milliseconds interval_;
  SlowestRank slowest_;

  mutable std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  Ranks ranks_;
  std::thread thread_;
};

}  // namespace ddp::rt::health
