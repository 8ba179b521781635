// Plays scheduler, kubelet and garbage collector of one namespace: binds each new pod, says that it
// runs, and lets a pod go once its deletion was asked for. Tests say how pods end. It remembers
// every pod that ever was, by name and UID.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "operator/kube/watcher.h"

namespace ddp::integration {

class FakeKubelet {
 public:
  FakeKubelet(kube::Client client, std::string name_space);

  // While off, pods stay pending.
  void SetStarting(bool on) { starting_ = on; }
  // While off, a pod that is being deleted stays: its node is dead.
  void SetEnding(bool on) { ending_ = on; }
  // The pod gets a node, and no more.
  bool Place(const std::string& pod);
  // Marks a pod as the eviction API, the scheduler and others do.
  bool Mark(const std::string& pod, const std::string& reason);
  // The pod failed as a whole, as when its node shuts down: no container tells of its end.
  bool Fail(const std::string& pod, const std::string& reason);
  // Every container of the pod ends with this code; false: the pod is not there. `disruption`: the
  // reason of a mark that it carries, as from the eviction API.
  bool End(const std::string& pod, int exit_code, const std::string& disruption = "");
  // The same as a kubelet tells it first: of the containers, while the pod's phase is still
  // Running.
  bool EndContainers(const std::string& pod, int exit_code);

  // All pods ever seen: name → UIDs. Two UIDs: the pod was made twice.
  std::map<std::string, std::set<std::string>> Ever() const;
  std::set<std::string> Running() const;

 private:
  void OnEvent(const kube::ObjectEvent& event);
  void OnPod(const json::Json& pod);
  bool SetStatus(const std::string& name, const json::Json& status);
  json::Json Ended(const std::string& pod, const char* phase, int exit_code);

  kube::Client client_;
  const std::string namespace_;
  std::atomic<bool> starting_{true};
  std::atomic<bool> ending_{true};
  mutable std::mutex mutex_;
  std::map<std::string, std::set<std::string>> ever_;
  std::set<std::string> running_;
  std::unique_ptr<kube::WatchSource> source_;
  std::jthread thread_;
};

}  // namespace ddp::integration
