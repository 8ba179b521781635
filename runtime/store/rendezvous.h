// The meeting of all ranks of one attempt: connects to (rank 0: hosts) the TCP store at
// MASTER_ADDR:MASTER_PORT, makes sure that all belong to the same job, attempt and world, and
// closes in an order in which nobody loses the store early. One per process; owned by main();
// outlives the process group. Not thread-safe, the store it hands out is.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/base/env.h"
#include "runtime/store/store.h"

namespace ddp::rt::store {

struct RendezvousOptions {
  // From the call until every rank has joined. Covers names that do not resolve yet and hosts that
  // refuse: both are tried again until then.
  std::chrono::milliseconds init_timeout = std::chrono::minutes(5);
  // How long rank 0 keeps the store open for ranks that have not left.
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(10);
};

class Rendezvous {
 public:
  // Returns when all ranks are there. A world of one opens no port. Errors: kConfig for a port in
  // use, a world size that differs from rank 0's, or a rank that exists twice; kUnavailable for
  // everything that a later attempt may cure (the message says what happened last, and where).
  explicit Rendezvous(RankEnv env, const RendezvousOptions& options = {});
  // The same over a store that exists already: for tests with ranks as threads.
  Rendezvous(RankEnv env, std::shared_ptr<Store> shared, const RendezvousOptions& options);
  // Leaves without waiting if Shutdown was not called: what a failing rank does.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Keys are prefixed with job UID and attempt.
  Store& store() { return *store_; }
  std::shared_ptr<Store> shared_store() { return store_; }
  int rank() const { return env_.rank; }
  int world_size() const { return env_.world_size; }
  // The port that rank 0 listens on (port 0 chooses a free one); 0 in a world of one.
  int port() const { return port_; }

  // Says good-bye. Rank 0 leaves last: it waits until all others have left or the shutdown timeout
  // is over, and logs who has not. Never throws; the second call does nothing.
  void Shutdown() noexcept;

 private:
  void Join(const Deadline& deadline);

  RankEnv env_;
  RendezvousOptions options_;
  std::shared_ptr<Store> root_;   // null in a world of one
  std::shared_ptr<Store> store_;  // the prefixed view of it
  int port_ = 0;
  bool left_ = false;
};

}  // namespace ddp::rt::store
