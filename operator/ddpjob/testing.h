// Builders for tests: each test states only what it varies.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/names.h"
#include "operator/ddpjob/plan.h"

namespace ddp::job::testing {

inline constexpr api::TimePoint kStart{std::chrono::seconds(1'700'000'000)};

inline api::DDPJob MakeJob(int replicas = 2) {
  api::DDPJob job;
  job.metadata.name = "mnist";
  job.metadata.namespace_name = "default";
  job.metadata.uid = "job-uid";
  job.metadata.generation = 1;
  job.spec.replicas = replicas;
  job.spec.pod_template = api::PodTemplate(
      json::Json{{"spec", {{"containers", {{{"name", "worker"}, {"image", "i"}}}}}}});
  return job;
}

// Changes spec.template.spec by `edit(json::Json&)`.
template <typename Edit>
void EditPod(api::Spec& spec, Edit edit) {
  json::Json pod_template = spec.pod_template.Parsed();
  edit(pod_template["spec"]);
  spec.pod_template = api::PodTemplate(pod_template);
}

class PodMaker {
 public:
  PodMaker(int attempt, int rank) {
    pod_.name = api::PodName("mnist", attempt, rank);
    pod_.uid = pod_.name + "-uid";
    pod_.attempt = attempt;
    pod_.rank = rank;
  }
  PodMaker& Running() {
    pod_.phase = PodPhase::kRunning;
    pod_.started = true;
    pod_.ready = true;
    pod_.node = "n1";
    return *this;
  }
  PodMaker& Exited(int code, api::TimePoint at = kStart) {
    Running();
    pod_.phase = code == 0 ? PodPhase::kSucceeded : PodPhase::kFailed;
    pod_.ready = false;
    pod_.exit_code = code;
    pod_.finished_time = at;
    return *this;
  }
  // After Exited: the kubelet has told of the container, and not yet of the pod.
  PodMaker& Unconfirmed(bool others_run = false) {
    pod_.phase = PodPhase::kRunning;
    pod_.others_run = others_run;
    return *this;
  }
  PodMaker& Disrupted(std::string reason) {
    pod_.disruption = std::move(reason);
    return *this;
  }
  PodMaker& Deleted(api::TimePoint at) {
    pod_.deletion_time = at;
    return *this;
  }
  PodMaker& Saying(std::string reason, std::string message) {
    pod_.reason = std::move(reason);
    pod_.message = std::move(message);
    return *this;
  }
  PodMaker& Failed(std::string reason) {
    pod_.phase = PodPhase::kFailed;
    pod_.reason = std::move(reason);
    return *this;
  }
  operator PodRecord() const { return pod_; }  // NOLINT(google-explicit-constructor): reads well

 private:
  PodRecord pod_;
};

inline PodMaker Pod(int attempt, int rank) { return {attempt, rank}; }

}  // namespace ddp::job::testing
