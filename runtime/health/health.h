// The health side of one rank: the HTTP server from the start of the program to its end, and the
// heartbeat while the ranks are connected. Owned by main(); calls come from its thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "runtime/health/heartbeat.h"
#include "runtime/health/server.h"
#include "runtime/store/store.h"
#include "runtime/train/board.h"

namespace ddp::rt::health {

class Health {
 public:
  // `port` 0 takes a free one; the log names it. A port that can't be had is a warning.
  Health(const train::Board& board, int port);

  // Starts the heartbeat on a store that outlives Disconnect.
  void Connect(store::Store& store, int rank, int world_size);
  void Disconnect();
  // On rank 0, where all are known: logs where every rank was heard of last. For when the group has
  // broken.
  void TellWhereabouts() const;

 private:
  std::optional<Heartbeat::Ranks> RanksNow() const;
  Answer Ready() const;

  const train::Board& board_;
  mutable std::mutex mutex_;
  std::unique_ptr<Heartbeat> heartbeat_;
  bool lists_ranks_ = false;
  std::unique_ptr<Server> server_;  // last: its threads use what is above
};

}  // namespace ddp::rt::health
