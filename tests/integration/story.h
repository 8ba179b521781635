// A job's life with troubles, told step by step so that several go on at once: ranks that fail,
// pods that are deleted, suspensions, in an order that a seed decides. Whatever happens meanwhile
// to operators, network and API server, the end must be that of a calm run.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/cluster.h"
#include "tests/integration/fake_kubelet.h"

namespace ddp::integration {

class Story {
 public:
  Story(Cluster& cluster, unsigned seed);
  ~Story();
  Story(const Story&) = delete;
  Story& operator=(const Story&) = delete;

  const std::string& name_space() const { return namespace_; }
  // Looks, and does what is due. True: the job has ended.
  bool Step();
  // Fails the test, naming the seed, unless the world is as after a calm run: the job succeeded,
  // each attempt had each rank once, every failure is counted once and as what it was.
  void ExpectCalmEnd();
  // Deletes the job, plays garbage collector, and fails the test if anything is left or comes back.
  void ExpectNothingLeft();

 private:
  enum class Trouble { kFail, kDeletePod, kSuspend };
  void Cause(Trouble trouble);
  json::Json Job() const;
  json::Json ReadStatus();
  size_t Count(const char* plural);

  Cluster& cluster_;
  kube::Client& admin_;
  const unsigned seed_;
  std::mt19937 random_;
  const std::string namespace_;
  const int replicas_;
  std::vector<Trouble> troubles_;  // to come, the next one last
  int attempt_ = 1;                // that should run now
  int failed_ = 0;
  int deleted_ = 0;
  bool suspended_ = false;
  bool done_ = false;
  std::unique_ptr<FakeKubelet> kubelet_;
};

}  // namespace ddp::integration
