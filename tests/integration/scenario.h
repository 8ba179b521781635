// One test's world: a namespace of its own, a job in it, somebody who plays kubelet, and questions
// to ask. Tests read as stories.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/integration/cluster.h"
#include "tests/integration/fake_kubelet.h"

namespace ddp::integration {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline const kube::Resource kJobs{"ddpjob.dev", "v1alpha1", "ddpjobs", "DDPJob"};
inline const kube::Resource kPods{"", "v1", "pods", "Pod"};
inline const kube::Resource kServices{"", "v1", "services", "Service"};

class Scenario : public ::testing::Test {
 public:
  ~Scenario() override;

 protected:
  static constexpr seconds kLongest{30};

  Scenario();

  static json::Json Job(int replicas, const json::Json& more = json::Json::object());
  void Create(const json::Json& job);
  json::Json Read(const kube::Resource& resource, const std::string& name);

  std::string Phase() { return json::GetString(Read(kJobs, "train"), {"status", "phase"}); }
  int64_t Attempt() { return json::GetInt(Read(kJobs, "train"), {"status", "attempt"}); }
  int64_t Restarts(const char* cause) {
    return json::GetInt(Read(kJobs, "train"), {"status", "restarts", cause});
  }
  // Each waits, and fails the test with the job's status when it is too late.
  void WaitForPhase(const std::string& phase);
  void WaitForRunningAttempt(int attempt, int replicas);
  // A merge patch of the job's spec.
  void Change(const json::Json& spec);
  // Until a condition of the job has this reason; its message.
  std::string WaitForReason(const std::string& condition, const std::string& reason);
  // The names of its pods that are not being deleted.
  std::set<std::string> LivePods();
  void EndAll(int attempt, int replicas, int exit_code);
  // A pod that is being deleted goes when its kubelet has been heard.
  void WaitUntilGone(const std::string& pod);

  // No pod name was ever made twice.
  void ExpectNoPodMadeTwice();
  static std::string Pod(int attempt, int rank) {
    return "train-" + std::to_string(attempt) + "-" + std::to_string(rank);
  }

  Cluster& cluster_ = Cluster::Get();
  kube::Client& admin_ = cluster_.admin();
  std::string namespace_;
  std::unique_ptr<FakeKubelet> kubelet_;
};

}  // namespace ddp::integration
