// One of several operators acts, chosen by a Lease. Times follow client-go tools/leaderelection:
// lease 15 s, renewed within 10 s or given up, tried every 2 s. Whether another's lease has run out
// is judged by our own clock since the record last changed, never by the times written in it.
// This is no fence: for a moment two may believe they lead, so every write must be safe under that
// (preconditions, names that can be taken only once).
// One thread calls; healthy() may be called from any.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "operator/base/clock.h"
#include "operator/kube/lease.h"

namespace ddp::controller {

class LeaderElector {
 public:
  struct Options {
    std::string identity;  // unique among the candidates
    std::chrono::milliseconds lease_duration{15'000};
    std::chrono::milliseconds renew_deadline{10'000};
    std::chrono::milliseconds retry_period{2'000};
  };
  enum class Role { kFollower, kLeader, kLost };

  LeaderElector(kube::LeaseClient& lease, Options options,
                const base::Clock& clock = base::SystemClock());

  // Blocks until this one leads; false: stopped before.
  bool Acquire(const std::stop_token& stop);
  // Blocks while it leads. False: lost, and the program must end; true: stopped.
  bool Hold(const std::stop_token& stop);
  // Hands the lease over at once, if it is ours.
  void Release();
  // Empty while all is well; a sentence when the lease should have been renewed by now.
  std::string Health() const;

  // One attempt to become or stay leader.
  Role Tick();

 private:
  using Time = std::chrono::steady_clock::time_point;
  kube::ApiResult<kube::LeaseRecord> TryOnce(Time now);
  bool IsFree(const kube::LeaseRecord& record, Time now) const;
  kube::LeaseRecord Claim(const kube::LeaseRecord& before) const;
  void Observe(const kube::LeaseRecord& record, Time now);
  bool Wait(const std::stop_token& stop) const;
  std::chrono::milliseconds CallDeadline(Time now) const;

  kube::LeaseClient& lease_;
  const Options options_;
  const base::Clock& clock_;
  std::optional<kube::LeaseRecord> observed_;
  Time observed_at_{};
  std::atomic<bool> leading_{false};
  std::atomic<Time> renewed_at_{Time{}};
};

}  // namespace ddp::controller
