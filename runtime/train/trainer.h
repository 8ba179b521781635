// The training loop of one rank: resume, step, evaluate, save. Construct it on all ranks and call
// Run once; what is handed in outlives it. Owned by the training thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/comm/process_group.h"
#include "runtime/data/idx.h"
#include "runtime/data/sampler.h"
#include "runtime/ddp/data_parallel.h"
#include "runtime/store/store.h"
#include "runtime/train/board.h"
#include "runtime/train/config.h"
#include "runtime/train/exchange.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizer.h"
#include "runtime/train/schedule.h"
#include "runtime/train/signals.h"

namespace ddp::rt::train {

struct Datasets {
  data::ImageSet train;
  data::ImageSet test;
};

inline constexpr int kClasses = 10;  // digits

// Stopped: one rank was asked to, and all did so after the same step.
enum class End { kFinished, kStoppedWithCheckpoint, kStoppedWithout };

class Trainer {
 public:
  // `folder` is null on all ranks but 0, and without checkpoints. All ranks start from the newest
  // valid checkpoint, if rank 0 finds one.
  Trainer(const Config& config, const Datasets& datasets, checkpoint::CheckpointFolder* folder,
          comm::ProcessGroup& group, store::Store& store, const StopSignals& signals, Board& board);

  End Run();

 private:
  void Resume();
  void Step(double learning_rate);
  void StepDone(const Exchange::Result& said, double learning_rate,
                std::chrono::duration<double> took);
  void EndOfEpoch();
  void Save(double learning_rate);
  void FinishSaving();
  void PrintResult();
  void CheckFinite() const;
  void UpdateSpeed();

  const Config& config_;
  const Datasets& datasets_;
  checkpoint::CheckpointFolder* folder_;
  comm::ProcessGroup& group_;
  const StopSignals& signals_;
  Board& board_;

  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  data::DistributedSampler sampler_;
  Exchange exchange_;
  std::optional<Walk> walk_;
  std::unique_ptr<DataParallel> replicas_;
  std::optional<checkpoint::Saver> saver_;

  double loss_ = 0;        // of this rank's last step
  double epoch_loss_ = 0;  // sum over this rank's steps of the epoch
  int64_t epoch_steps_ = 0;
  int64_t saved_step_ = -1;
  bool has_checkpoints_ = false;  // rank 0 saves; known on all ranks

  std::chrono::steady_clock::time_point last_step_end_;
  double smoothed_seconds_ = 0;  // from the end of a step to that of the next
  int64_t steps_here_ = 0;       // of this process
};

}  // namespace ddp::rt::train
