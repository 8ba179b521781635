#include "tests/integration/fake_kubelet.h"

namespace ddp::integration {
namespace {

using json::Json;

const kube::Resource kPods{"", "v1", "pods", "Pod"};
constexpr const char* kNode = "node-0";

Json ContainerStatus(const std::string& name, Json state, bool ready) {
  return {{"name", name},
          {"image", "i"},
          {"imageID", ""},
          {"restartCount", 0},
          {"ready", ready},
          {"started", ready},
          {"state", std::move(state)}};
}

Json Condition(const char* type, bool value) {
  return {{"type", type}, {"status", value ? "True" : "False"}};
}

Json Disruption(const std::string& reason) {
  Json mark = Condition("DisruptionTarget", true);
  mark["reason"] = reason;
  return mark;
}

Json PodStatus(const char* phase, bool ready, Json state) {
  return {{"phase", phase},
          {"podIP", "127.0.0.1"},
          {"conditions", {Condition("PodScheduled", true), Condition("Ready", ready)}},
          {"containerStatuses", {ContainerStatus("worker", std::move(state), ready)}}};
}

std::string Now() { return base::FormatTime(base::SystemClock().Now()); }

}  // namespace

FakeKubelet::FakeKubelet(kube::Client client, std::string name_space)
    : client_(std::move(client)),
      namespace_(std::move(name_space)),
      source_(kube::MakeWatchSource(client_, kPods, namespace_, {})),
      thread_([this](std::stop_token stop) {
        kube::Watcher("kubelet", *source_)
            .Run(std::move(stop), [this](const kube::ObjectEvent& event) { OnEvent(event); });
      }) {}

void FakeKubelet::OnEvent(const kube::ObjectEvent& event) {
  using Kind = kube::ObjectEvent::Kind;
  if (event.kind == Kind::kInitItem || event.kind == Kind::kUpsert) {
    OnPod(event.object);
  } else if (event.kind == Kind::kDelete) {
    std::lock_guard lock(mutex_);
    running_.erase(json::GetString(event.object, {"metadata", "name"}));
  }
}

void FakeKubelet::OnPod(const Json& pod) {
  const std::string name = json::GetString(pod, {"metadata", "name"});
  const std::string uid = json::GetString(pod, {"metadata", "uid"});
  {
    std::lock_guard lock(mutex_);
    ever_[name].insert(uid);
  }
  if (!json::GetString(pod, {"metadata", "deletionTimestamp"}).empty()) {
    if (!ending_) {
      return;
    }
    kube::DeleteOptions now;
    now.grace_seconds = 0;
    now.uid = uid;
    (void)client_.Delete(kPods, namespace_, name, now);
    return;
  }
  const std::string phase = json::GetString(pod, {"status", "phase"});
  if (json::GetString(pod, {"spec", "nodeName"}).empty()) {
    if (starting_) {
      Place(name);
    }
  } else if (phase == "Pending" && starting_) {
    SetStatus(name, PodStatus("Running", true, {{"running", {{"startedAt", Now()}}}}));
  } else if (phase == "Running") {
    std::lock_guard lock(mutex_);
    running_.insert(name);
  }
}

bool FakeKubelet::Place(const std::string& pod) {
  const kube::Resource binding{"", "v1", "pods/" + pod + "/binding", "Binding"};
  return client_
      .Create(binding, namespace_,
              {{"apiVersion", "v1"},
               {"kind", "Binding"},
               {"metadata", {{"name", pod}, {"namespace", namespace_}}},
               {"target", {{"kind", "Node"}, {"name", kNode}}}})
      .has_value();
}

bool FakeKubelet::SetStatus(const std::string& name, const Json& status) {
  return client_
      .Patch(kPods, namespace_, name, kube::PatchType::kMerge, {{"status", status}}, "status")
      .has_value();
}

bool FakeKubelet::Mark(const std::string& pod, const std::string& reason) {
  return SetStatus(pod, {{"conditions", {Condition("PodScheduled", true), Disruption(reason)}}});
}

bool FakeKubelet::Fail(const std::string& pod, const std::string& reason) {
  return SetStatus(pod, {{"phase", "Failed"},
                         {"reason", reason},
                         {"message", "the node was shut down"},
                         {"containerStatuses", nullptr}});
}

Json FakeKubelet::Ended(const std::string& pod, const char* phase, int exit_code) {
  {
    std::lock_guard lock(mutex_);
    running_.erase(pod);
  }
  const Json state = {{"terminated",
                       {{"exitCode", exit_code},
                        {"reason", exit_code == 0 ? "Completed" : "Error"},
                        {"message", exit_code == 0 ? "" : "the last line of its log"},
                        {"startedAt", Now()},
                        {"finishedAt", Now()}}}};
  return PodStatus(phase, false, state);
}

bool FakeKubelet::End(const std::string& pod, int exit_code, const std::string& disruption) {
  Json status = Ended(pod, exit_code == 0 ? "Succeeded" : "Failed", exit_code);
  if (!disruption.empty()) {
    status["conditions"].push_back(Disruption(disruption));
  }
  return SetStatus(pod, status);
}

bool FakeKubelet::EndContainers(const std::string& pod, int exit_code) {
  return SetStatus(pod, Ended(pod, "Running", exit_code));
}

std::map<std::string, std::set<std::string>> FakeKubelet::Ever() const {
  std::lock_guard lock(mutex_);
  return ever_;
}

std::set<std::string> FakeKubelet::Running() const {
  std::lock_guard lock(mutex_);
  return running_;
}

}  // namespace ddp::integration
