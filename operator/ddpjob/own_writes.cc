#include "operator/ddpjob/own_writes.h"

#include <algorithm>
#include <string_view>

namespace ddp::job {

void OwnWrites::WillCreatePod(const std::string& job, const std::string& name) {
  std::lock_guard lock(mutex_);
  jobs_[job].in_flight.try_emplace(name);
}

void OwnWrites::CreatedPod(const std::string& job, PodRecord record) {
  std::lock_guard lock(mutex_);
  Job& own = jobs_[job];
  const auto flight = own.in_flight.extract(record.name);
  const bool seen = !flight.empty() && flight.mapped().contains(record.uid);
  if (!seen) {
    std::string uid = record.uid;
    own.created[std::move(uid)] = {std::move(record), clock_.Steady() + kBelievedFor};
  }
}

void OwnWrites::DidNotCreatePod(const std::string& job, const std::string& name) {
  std::lock_guard lock(mutex_);
  jobs_[job].in_flight.erase(name);
}

void OwnWrites::WillDelete(const std::string& job, const std::vector<std::string>& pod_uids,
                           base::TimePoint gone_by) {
  std::lock_guard lock(mutex_);
  for (const std::string& uid : pod_uids) {
    jobs_[job].deleted[uid] = {gone_by, clock_.Steady() + kBelievedFor};
  }
}

void OwnWrites::DidNotDelete(const std::string& job, const std::vector<std::string>& pod_uids) {
  std::lock_guard lock(mutex_);
  for (const std::string& uid : pod_uids) {
    jobs_[job].deleted.erase(uid);
  }
}

void OwnWrites::CreatedService(const std::string& job, const std::string& service_uid) {
  std::lock_guard lock(mutex_);
  jobs_[job].service = {service_uid, clock_.Steady() + kBelievedFor};
}

void OwnWrites::WroteStatus(const std::string& replaced, const api::DDPJob& now) {
  std::lock_guard lock(mutex_);
  Job& own = jobs_[now.metadata.uid];
  own.replaced_versions.insert(replaced);
  own.newest = now;
}

void OwnWrites::SawPod(const std::string& job, const std::string& name, const std::string& uid,
                       bool deleting_or_gone) {
  std::lock_guard lock(mutex_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) {
    return;
  }
  Job& own = it->second;
  if (const auto flight = own.in_flight.find(name); flight != own.in_flight.end()) {
    flight->second.insert(uid);
  }
  own.created.erase(uid);
  if (deleting_or_gone) {
    own.deleted.erase(uid);
  }
}

void OwnWrites::SawService(const std::string& job, const std::string& service_uid) {
  std::lock_guard lock(mutex_);
  const auto it = jobs_.find(job);
  if (it != jobs_.end() && it->second.service && it->second.service->uid == service_uid) {
    it->second.service.reset();
  }
}

void OwnWrites::Forget(const std::string& job) {
  std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

const api::DDPJob& OwnWrites::Newest(const api::DDPJob& cached, api::DDPJob& storage) {
  std::lock_guard lock(mutex_);
  const auto it = jobs_.find(cached.metadata.uid);
  if (it == jobs_.end() || !it->second.newest) {
    return cached;
  }
  Job& own = it->second;
  if (own.replaced_versions.contains(cached.metadata.resource_version)) {
    storage = *own.newest;
    return storage;
  }
  own.newest.reset();  // the cache has our write, or one that came after it
  own.replaced_versions.clear();
  return cached;
}

void OwnWrites::Overlay(const std::string& job, std::vector<PodRecord>& pods) {
  std::lock_guard lock(mutex_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) {
    return;
  }
  Job& own = it->second;
  DropOld(own);
  std::set<std::string_view> shown;
  for (const PodRecord& pod : pods) {
    shown.insert(pod.uid);
  }
  std::vector<PodRecord> unseen;
  for (const auto& [uid, creation] : own.created) {
    if (!shown.contains(uid)) {
      unseen.push_back(creation.record);
    }
  }
  pods.insert(pods.end(), unseen.begin(), unseen.end());
  for (PodRecord& pod : pods) {
    const auto deletion = own.deleted.find(pod.uid);
    if (deletion != own.deleted.end()) {
      pod.deletion_time = pod.deletion_time ? std::min(*pod.deletion_time, deletion->second.gone_by)
                                            : deletion->second.gone_by;
    }
  }
}

bool OwnWrites::HasService(const std::string& job) {
  std::lock_guard lock(mutex_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) {
    return false;
  }
  DropOld(it->second);
  return it->second.service.has_value();
}

void OwnWrites::DropOld(Job& job) {
  const Time now = clock_.Steady();
  const auto old = [now](const auto& item) { return item.second.believed_until <= now; };
  std::erase_if(job.created, old);
  std::erase_if(job.deleted, old);
  if (job.service && job.service->believed_until <= now) {
    job.service.reset();
  }
}

}  // namespace ddp::job
