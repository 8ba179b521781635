// The training loop of one rank: resume, step, evaluate, save. Construct it on all ranks and call
// Run once. Owned by the training thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/data/loader.h"
#include "runtime/train/evaluate.h"
#include "runtime/train/exchange.h"
#include "runtime/train/model.h"
#include "runtime/train/planner.h"
#include "runtime/train/run_context.h"
#include "runtime/train/saving.h"
#include "runtime/train/schedule.h"
#include "runtime/train/step_log.h"
#include "runtime/train/stepper.h"

namespace ddp::rt::train {

// Stopped: one rank was asked to, and all did so after the same step.
enum class End { kFinished, kStoppedWithCheckpoint, kStoppedWithout };

class Trainer {
 public:
  // All ranks start from the newest valid checkpoint, if rank 0 finds one.
  explicit Trainer(const RunContext& run);

  End Run();
  // Before it is destroyed after a failure: what would wait for ranks that are lost does not.
  void Abandon(const std::string& why) { saving_.Abandon(why); }

 private:
  void MakeWalkAndLoader(const Walk::Place& start);
  bool Step();
  void AfterStep(bool stop, double learning_rate);
  void VerifyReplicas();
  Evaluation EvaluateNow();
  void EndOfEpoch();
  void MidEpoch();
  void PrintResult();
  std::string Describe(const Evaluation& test) const;
  void PrintSample();

  const RunContext run_;
  const Config& config_;
  std::unique_ptr<Model> model_;
  Saving saving_;
  std::optional<Walk> walk_;
  std::optional<Planner> planner_;  // used by the loader's threads
  std::unique_ptr<Stepper> stepper_;
  Exchange exchange_;
  StepLog log_;
  std::optional<data::Loader> loader_;

  std::optional<Evaluation> evaluation_;  // the newest
  double loss_ = 0;                       // of this rank's last step
  double epoch_loss_ = 0;                 // of this rank's steps of the epoch, times their samples
  double epoch_samples_ = 0;
  int first_to_stop_ = -1;
};

}  // namespace ddp::rt::train
