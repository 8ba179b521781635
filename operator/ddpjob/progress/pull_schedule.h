// Whom to ask for its progress and when, and which answers are worth telling. Pure: time comes in
// with each call, nothing here waits or sends. Not thread-safe; ProgressPuller guards it.
//
// A new peer is asked soon and then ever more rarely. Told is: the first answer, a newer
// checkpoint, a stall, a peer that went away or came back, and any other change once `report_every`
// has passed, so that a status that follows what is told is written that rarely too.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/ddpjob/observed.h"
#include "operator/ddpjob/progress/http_get.h"
#include "operator/ddpjob/progress/read_progress.h"

namespace ddp::job {

struct PullTarget {
  HttpAddress address;
  int attempt = 0;
  std::chrono::seconds stall_timeout{0};  // 0: never
  bool operator==(const PullTarget&) const = default;
};

struct PullOptions {
  std::chrono::milliseconds shortest{1'000};
  std::chrono::milliseconds longest{10'000};
  std::chrono::milliseconds report_every{10'000};
  // For a server in the pod to come up: only then is one that was never reached told of.
  std::chrono::milliseconds startup_grace{30'000};
  std::chrono::milliseconds unreachable{30'000};  // between two tries after that
  int misses = 3;                                 // in a row, before one that answered is told lost
  size_t max_in_flight = 64;
};

class PullSchedule {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Pull {
    std::string key;
    uint64_t ticket = 0;
    HttpAddress address;
  };

  explicit PullSchedule(PullOptions options = {}) : options_(options) {}

  // Nothing: ask no more. False: as it was.
  bool Set(const std::string& key, const std::optional<PullTarget>& target, Time now);
  // What is to be sent now; each must come back by Finish.
  std::vector<Pull> TakeDue(Time now);
  // Nothing: not before a Set or a Finish.
  std::optional<Time> NextDue() const;
  // True: what is told has changed.
  bool Finish(const Pull& pull, const base::Result<ProgressReply>& answer, TimePoint wall,
              Time now);

  // Of this attempt; nothing as long as there is nothing to tell.
  std::optional<ProgressPull> Told(const std::string& key, int attempt) const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    PullTarget target;
    uint64_t ticket = 0;
    Time since{};
    Time due{};  // meaningful while in due_
    std::chrono::milliseconds interval{0};
    int misses = 0;
    bool reached = false;
    int64_t step = -1;
    Time step_since{};
    std::optional<ProgressPull> told;
    Time told_at{};
  };

  bool TakeAnswer(Entry& entry, const ProgressReply& reply, TimePoint wall, Time now) const;
  bool TakeMiss(Entry& entry, const base::Error& error, TimePoint wall, Time now) const;
  void Plan(const std::string& key, Entry& entry, Time now);

  const PullOptions options_;
  std::map<std::string, Entry> entries_;
  std::set<std::pair<Time, std::string>> due_;  // not those in flight
  size_t in_flight_ = 0;
  uint64_t tickets_ = 0;
};

}  // namespace ddp::job
