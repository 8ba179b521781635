#include "operator/ddpjob/progress/pull_schedule.h"

#include <algorithm>

namespace ddp::job {

bool PullSchedule::Set(const std::string& key, const std::optional<PullTarget>& target, Time now) {
  const auto it = entries_.find(key);
  if (!target) {
    if (it == entries_.end()) {
      return false;
    }
    due_.erase({it->second.due, key});
    entries_.erase(it);
    return true;
  }
  if (it != entries_.end()) {
    if (it->second.target == *target) {
      return false;
    }
    due_.erase({it->second.due, key});
  }
  Entry fresh;
  fresh.target = *target;
  fresh.ticket = ++tickets_;
  fresh.since = now;
  fresh.due = now;
  fresh.interval = options_.shortest;
  due_.insert({now, key});
  entries_[key] = std::move(fresh);
  return true;
}

std::vector<PullSchedule::Pull> PullSchedule::TakeDue(Time now) {
  std::vector<Pull> pulls;
  while (!due_.empty() && due_.begin()->first <= now && in_flight_ < options_.max_in_flight) {
    const std::string key = due_.begin()->second;
    due_.erase(due_.begin());
    const Entry& entry = entries_.at(key);
    pulls.push_back({key, entry.ticket, entry.target.address});
    ++in_flight_;
  }
  return pulls;
}

std::optional<PullSchedule::Time> PullSchedule::NextDue() const {
  if (due_.empty() || in_flight_ >= options_.max_in_flight) {
    return std::nullopt;
  }
  return due_.begin()->first;
}

bool PullSchedule::Finish(const Pull& pull, const base::Result<ProgressReply>& answer,
                          TimePoint wall, Time now) {
  --in_flight_;
  const auto it = entries_.find(pull.key);
  if (it == entries_.end() || it->second.ticket != pull.ticket) {
    return false;  // of somebody who is watched no more
  }
  Entry& entry = it->second;
  const bool news =
      answer ? TakeAnswer(entry, *answer, wall, now) : TakeMiss(entry, answer.error(), wall, now);
  if (news) {
    entry.told_at = now;
  }
  Plan(pull.key, entry, now);
  return news;
}

bool PullSchedule::TakeAnswer(Entry& entry, const ProgressReply& reply, TimePoint wall,
                              Time now) const {
  if (!entry.reached || entry.misses > 0) {
    entry.interval = options_.shortest;
  } else {
    entry.interval = std::min(entry.interval * 2, options_.longest);
  }
  entry.reached = true;
  entry.misses = 0;
  if (entry.step != reply.progress.step) {
    entry.step = reply.progress.step;
    entry.step_since = now;
  }
  const ProgressPull pull{entry.target.attempt, true, "", wall, reply.progress, reply.checkpoint};
  const auto& told = entry.told;
  const bool first = !told || !told->ok;
  const bool newer_checkpoint =
      !first && pull.checkpoint &&
      (!told->checkpoint || pull.checkpoint->step > told->checkpoint->step);
  const bool changed =
      !first && (pull.progress != told->progress || pull.checkpoint != told->checkpoint);
  const bool stalled = entry.target.stall_timeout.count() > 0 &&
                       now - entry.step_since >= entry.target.stall_timeout;
  if (!first && !newer_checkpoint && !stalled &&
      !(changed && now - entry.told_at >= options_.report_every)) {
    return false;
  }
  entry.told = pull;
  return true;
}

bool PullSchedule::TakeMiss(Entry& entry, const base::Error& error, TimePoint wall,
                            Time now) const {
  ++entry.misses;
  const bool grace_is_over = now - entry.since >= options_.startup_grace;
  entry.interval = !entry.reached && grace_is_over ? options_.unreachable
                                                   : std::min(entry.interval * 2, options_.longest);
  const auto& told = entry.told;
  const bool news =
      !told      ? grace_is_over
      : told->ok ? entry.misses >= options_.misses
                 : told->error != error.message && now - entry.told_at >= options_.report_every;
  if (news) {
    entry.told = ProgressPull{entry.target.attempt, false, error.message, wall, {}, std::nullopt};
  }
  return news;
}

void PullSchedule::Plan(const std::string& key, Entry& entry, Time now) {
  entry.due = now + entry.interval;
  const auto sooner = [&](Time other) {
    if (other > now) {
      entry.due = std::min(entry.due, other);
    }
  };
  if (entry.misses == 0) {
    sooner(entry.told_at + options_.report_every);
    if (entry.target.stall_timeout.count() > 0) {
      sooner(entry.step_since + entry.target.stall_timeout);
    }
  }
  due_.insert({entry.due, key});
}

std::optional<ProgressPull> PullSchedule::Told(const std::string& key, int attempt) const {
  const auto it = entries_.find(key);
  return it != entries_.end() && it->second.target.attempt == attempt ? it->second.told
                                                                      : std::nullopt;
}

}  // namespace ddp::job
