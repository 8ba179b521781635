#include "operator/ddpjob/departed_pods.h"

namespace ddp::job {

void DepartedPods::Saw(const std::string& job, PodRecord last) {
  const std::scoped_lock lock(mutex_);
  const Time now = clock_.Steady();
  while (!jobs_.empty() && now - jobs_.front().first > kKept) {
    // One record for each entry, in the same order; none after Forget.
    if (const auto it = pods_.find(jobs_.front().second); it != pods_.end()) {
      it->second.erase(it->second.begin());
      if (it->second.empty()) {
        pods_.erase(it);
      }
    }
    jobs_.pop_front();
  }
  pods_[job].push_back(std::move(last));
  jobs_.emplace_back(now, job);
}

std::vector<PodRecord> DepartedPods::Of(const std::string& job) const {
  const std::scoped_lock lock(mutex_);
  const auto it = pods_.find(job);
  return it == pods_.end() ? std::vector<PodRecord>{} : it->second;
}

void DepartedPods::Forget(const std::string& job) {
  const std::scoped_lock lock(mutex_);
  pods_.erase(job);
  std::erase_if(jobs_, [&job](const auto& entry) { return entry.second == job; });
}

}  // namespace ddp::job
