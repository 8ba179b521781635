#include "operator/page/training_history.h"

namespace ddp::page {
namespace {

// Every second point goes, the newest stays.
void Thin(std::vector<LossPoint>& points) {
  std::vector<LossPoint> kept;
  kept.reserve(points.size() / 2 + 1);
  for (size_t i = (points.size() - 1) % 2; i < points.size(); i += 2) {
    kept.push_back(points[i]);
  }
  points = std::move(kept);
}

}  // namespace

void TrainingHistory::Record(const std::string& key, const job::ProgressReply& reply) {
  const std::scoped_lock lock(mutex_);
  if (!entries_.contains(key) && entries_.size() >= kMaxJobs) {
    return;  // pruned when the page is next looked at
  }
  Entry& entry = entries_[key];
  entry.training.ranks = reply.ranks;
  std::vector<LossPoint>& losses = entry.training.losses;
  const int64_t step = reply.progress.step;
  std::erase_if(losses, [step](const LossPoint& point) { return point.step > step; });
  if (!reply.progress.loss || (!losses.empty() && step - losses.back().step < entry.spacing)) {
    return;
  }
  losses.push_back({step, *reply.progress.loss});
  if (losses.size() > kMaxPoints) {
    Thin(losses);
    entry.spacing =
        (losses.back().step - losses.front().step) / static_cast<int64_t>(losses.size() - 1);
  }
}

Training TrainingHistory::Of(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  const auto it = entries_.find(key);
  return it == entries_.end() ? Training{} : it->second.training;
}

void TrainingHistory::Prune(const std::function<bool(const std::string& key)>& exists) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [&exists](const auto& entry) { return !exists(entry.first); });
}

}  // namespace ddp::page
