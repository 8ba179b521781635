// What we have written and the caches do not show yet. A reconcile that looked at the caches alone
// would create the same pods again, or count one failure twice; so it looks through this: the
// caches, overlaid with our own writes until they come back on the watch, or for 5 minutes if they
// never do (client-go's expectations: kubernetes pkg/controller/controller_utils.go).
//
// Answers and watch events race: an event may come before the answer to the request that caused it.
// So a creation is announced before it is sent, and what is seen meanwhile is remembered.
// Thread-safe. In memory only: after a restart the first list shows everything.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/ddpjob/cached.h"

namespace ddp::job {

class OwnWrites {
 public:
  static constexpr std::chrono::minutes kBelievedFor{5};

  explicit OwnWrites(const base::Clock& clock = base::SystemClock()) : clock_(clock) {}

  // ---- what we do; `job` is the job's UID ----
  void WillCreatePod(const std::string& job, const std::string& name);
  void CreatedPod(const std::string& job, PodRecord record);
  void DidNotCreatePod(const std::string& job, const std::string& name);
  // Before the request, so that its events can't come first; taken back if it fails.
  void WillDelete(const std::string& job, const std::vector<std::string>& pod_uids,
                  base::TimePoint gone_by);
  void DidNotDelete(const std::string& job, const std::vector<std::string>& pod_uids);
  void CreatedService(const std::string& job, const std::string& service_uid);
  // The server replaced version `replaced` by what `now` is.
  void WroteStatus(const std::string& replaced, const api::DDPJob& now);

  // ---- what the watches show ----
  void SawPod(const std::string& job, const std::string& name, const std::string& uid,
              bool deleting_or_gone);
  void SawService(const std::string& job, const std::string& service_uid);
  void Forget(const std::string& job);  // it is gone

  // ---- the view ----
  // The job as we left it, if the cache has not caught up with our last status write.
  const api::DDPJob& Newest(const api::DDPJob& cached, api::DDPJob& storage);
  // Adds the pods that we made, marks those that we deleted.
  void Overlay(const std::string& job, std::vector<PodRecord>& pods);
  bool HasService(const std::string& job);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Deletion {
    base::TimePoint gone_by;
    Time believed_until;
  };
  struct Creation {
    PodRecord record;
    Time believed_until;
  };
  struct Service {
    std::string uid;
    Time believed_until;
  };
  struct Job {
    std::map<std::string, std::set<std::string>> in_flight;  // pod name → UIDs seen meanwhile
    std::map<std::string, Creation> created;                 // by pod UID
    std::map<std::string, Deletion> deleted;                 // by pod UID
    std::optional<Service> service;
    std::set<std::string> replaced_versions;  // of the job, all older than `newest`
    std::optional<api::DDPJob> newest;
  };
  void DropOld(Job& job);

  const base::Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, Job> jobs_;
};

}  // namespace ddp::job
