// Makes the batches of the coming steps on threads of its own, so that training need not wait for
// them. Batches come out in the order of the plan and are the same for any number of threads:
// what is in one is a function of its plan alone. A run that is resumed plans from where it is, so
// nothing of a loader is ever saved.
//
// Next is called by one thread. The data set and what `plan` uses outlive the loader.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/data/dataset.h"

namespace ddp::rt::data {

// One rank's share of a step.
struct StepPlan {
  int64_t step = 0;
  std::vector<int64_t> samples = {};
  int64_t total = 0;  // samples of the step, over all ranks
  int64_t part = 0;   // samples a part at most: backward passes whose gradients add up
  int64_t parts = 1;  // the last ones may have fewer samples, or none
  Draw draw = {};
};

struct LoadedStep {
  StepPlan plan;
  std::vector<Batch> parts;
};

struct LoaderOptions {
  int threads = 1;      // 0 = Next makes the batch itself
  int ahead = 4;        // steps made before they are asked for, at most
  bool pinned = false;  // memory that a GPU copies from while it computes
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  // of Next
};

class Loader {
 public:
  // `plan` gives the next step each time, nothing at the end; called under a lock, in order.
  Loader(const Dataset& data, std::function<std::optional<StepPlan>()> plan,
         const LoaderOptions& options);
  // Ends the threads; one that is making a batch ends that first.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next step. What a thread threw is thrown here, at its place in the order; Error(kSoftware)
  // after the timeout names the step. Not to be called after the plan's end.
  LoadedStep Next();

 private:
  LoadedStep Make(StepPlan plan) const;
  void Work();
  struct Outcome {
    std::optional<LoadedStep> step;
    std::exception_ptr failure;
  };

  const Dataset& data_;
  const std::function<std::optional<StepPlan>()> plan_;
  const LoaderOptions options_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t planned_ = 0;  // steps handed to threads
  int64_t taken_ = 0;    // by Next
  bool ended_ = false;   // no further plan
  bool stop_ = false;
  std::map<int64_t, Outcome> ready_;
  std::vector<std::thread> threads_;
};

}  // namespace ddp::rt::data
