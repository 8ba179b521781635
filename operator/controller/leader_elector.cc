#include "operator/controller/leader_elector.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "operator/base/log.h"

namespace ddp::controller {
namespace {

using kube::ApiResult;
using kube::LeaseRecord;
using std::chrono::milliseconds;

constexpr milliseconds kLongestCall{5'000};
constexpr milliseconds kShortestCall{100};

}  // namespace

LeaderElector::LeaderElector(kube::LeaseClient& lease, Options options, const base::Clock& clock)
    : lease_(lease), options_(std::move(options)), clock_(clock) {
  DDP_CHECK(options_.lease_duration > options_.renew_deadline &&
                options_.renew_deadline > options_.retry_period * 6 / 5,
            "lease > renew > 1.2 retry must hold, or two could lead");
}

bool LeaderElector::IsFree(const LeaseRecord& record, Time now) const {
  const auto duration =
      record.duration.count() > 0 ? milliseconds(record.duration) : options_.lease_duration;
  return record.holder.empty() || record.holder == options_.identity ||
         observed_at_ + duration <= now;
}

LeaseRecord LeaderElector::Claim(const LeaseRecord& before) const {
  LeaseRecord claim = before;
  const base::TimePoint now = clock_.Now();
  if (before.holder != options_.identity) {
    claim.holder = options_.identity;
    claim.acquire_time = now;
    claim.transitions = before.resource_version.empty() ? 0 : before.transitions + 1;
  }
  claim.renew_time = now;
  claim.duration = std::chrono::ceil<std::chrono::seconds>(options_.lease_duration);
  return claim;
}

void LeaderElector::Observe(const LeaseRecord& record, Time now) {
  if (!observed_ || *observed_ != record) {
    observed_ = record;
    observed_at_ = now;
  }
}

// A call that outlives the renew deadline could not be acted upon any more.
milliseconds LeaderElector::CallDeadline(Time now) const {
  if (!leading_) {
    return kLongestCall;
  }
  const auto left =
      std::chrono::duration_cast<milliseconds>(renewed_at_.load() + options_.renew_deadline - now);
  return std::clamp(left, kShortestCall, kLongestCall);
}

ApiResult<LeaseRecord> LeaderElector::TryOnce(Time now) {
  const milliseconds deadline = CallDeadline(now);
  // A leader knows the record that it wrote: one request. Anything unexpected reads it first.
  if (!leading_ || !observed_) {
    auto read = lease_.Get(deadline);
    if (!read && read.error().code == base::ErrorCode::kNotFound) {
      return lease_.Create(Claim({}), deadline);
    }
    if (!read) {
      return read.error();
    }
    Observe(*read, now);
  }
  if (!IsFree(*observed_, now)) {
    return *observed_;
  }
  auto written = lease_.Update(Claim(*observed_), deadline);
  if (!written && written.error().code == base::ErrorCode::kConflict) {
    observed_.reset();
  }
  return written;
}

LeaderElector::Role LeaderElector::Tick() {
  const Time now = clock_.Steady();
  auto result = TryOnce(now);
  if (result) {
    Observe(*result, now);
    if (result->holder == options_.identity) {
      renewed_at_ = now;
      leading_ = true;
      return Role::kLeader;
    }
    const bool lost = leading_.exchange(false);
    return lost ? Role::kLost : Role::kFollower;
  }
  base::Log(base::Level::kInfo, "lease request failed",
            {{"code", Name(result.error().code)}, {"error", result.error().message}});
  if (!leading_) {
    return Role::kFollower;
  }
  if (clock_.Steady() - renewed_at_.load() < options_.renew_deadline) {
    return Role::kLeader;
  }
  leading_ = false;
  return Role::kLost;
}

bool LeaderElector::Wait(const std::stop_token& stop) const {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, options_.retry_period, [] { return false; });
  return !stop.stop_requested();
}

bool LeaderElector::Acquire(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (Tick() == Role::kLeader) {
      base::Log(base::Level::kInfo, "became leader", {{"identity", options_.identity}});
      return true;
    }
    if (!Wait(stop)) {
      break;
    }
  }
  return false;
}

bool LeaderElector::Hold(const std::stop_token& stop) {
  while (Wait(stop)) {
    if (Tick() == Role::kLost) {
      base::Log(base::Level::kError, "lost the lease", {{"identity", options_.identity}});
      return false;
    }
  }
  return true;
}

void LeaderElector::Release() {
  if (!leading_.exchange(false) || !observed_) {
    return;
  }
  LeaseRecord released = *observed_;
  released.holder.clear();
  released.duration = std::chrono::seconds(1);
  released.renew_time = clock_.Now();
  if (auto result = lease_.Update(released, kLongestCall); !result) {
    base::Log(base::Level::kInfo, "could not release the lease, it will run out",
              {{"error", result.error().message}});
  }
}

std::string LeaderElector::Health() const {
  if (leading_ && clock_.Steady() - renewed_at_.load() > options_.lease_duration) {
    return "the leader's lease has not been renewed in time";
  }
  return "";
}

}  // namespace ddp::controller
