// Ranks as processes of this host, for benchmarks: they meet on loopback as in a real run.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/base/net.h"

namespace ddp::rt {

// One child after the other, by `child` of its rank: a child that returns ends well. Returns 0 when
// all of them did.
inline int ForkRanks(int ranks, const std::function<void(int rank)>& child) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() == 0) {
      try {
        child(rank);
      } catch (const Error& e) {
        fmt::print(stderr, "rank {}: {}\n", rank, e.what());
        _exit(static_cast<int>(e.code()));
      }
      _exit(0);
    }
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) {
    failed |= status;
  }
  return failed == 0 ? 0 : 1;
}

// The same with the environment by which they meet.
inline int RunRanks(int ranks, const std::function<void(const RankEnv&)>& rank_main) {
  RankEnv env;
  env.world_size = ranks;
  env.master_addr = "127.0.0.1";
  env.master_port = BoundPort(ListenTcp("127.0.0.1", 0, ""));
  return ForkRanks(ranks, [&](int rank) {
    env.rank = rank;
    rank_main(env);
  });
}

}  // namespace ddp::rt
