// Loops in which some ranks have more batches than others. Every rank takes the same number of
// steps: one that has run out shadows the others' collectives with zeros and takes the same
// optimizer steps, so replicas stay equal to the bit, optimizer state included.
//
//   UnevenInputs inputs(replicas, {});
//   while (inputs.Next(loader.HasNext())) {
//     replicas.ZeroGrad();
//     if (inputs.has_batch()) {
//       loss(model->forward(x), y).backward();
//     } else {
//       inputs.Shadow();
//     }
//     optimizer.step();
//   }
//   Log(inputs.Describe());
//
// Each Next is one small all-reduce. Collectives that a forward makes (SyncBatchNorm) can't be
// shadowed: with those use kStopAll. Owned by the training thread.
#pragma once

#include <string>
#include <vector>

#include "runtime/ddp/data_parallel.h"

namespace ddp::rt {

struct UnevenInputsOptions {
  enum class When {
    kShadow,   // go on until no rank has a batch
    kStopAll,  // end on all ranks as soon as one has none
  } when = When::kShadow;
  // The mean is over the ranks that have a batch, instead of all (as PyTorch's default).
  bool divide_by_active = false;
};

class UnevenInputs {
 public:
  UnevenInputs(DataParallel& engine, UnevenInputsOptions options);
  // The engine's mean is over all ranks again.
  ~UnevenInputs();
  UnevenInputs(const UnevenInputs&) = delete;
  UnevenInputs& operator=(const UnevenInputs&) = delete;

  // Whether there is another step, which is the same on all ranks. `has_batch`: on this one.
  bool Next(bool has_batch);
  // In this step, here.
  bool has_batch() const { return has_batch_; }
  // This rank's part in a step without a batch: instead of backward.
  void Shadow() { engine_.ReduceWithoutBackward(); }

  // How many ranks had a batch in this step.
  int active() const { return active_; }
  std::int64_t steps() const { return steps_; }
  // After the end: batches that each rank had used. A collective call.
  std::vector<std::int64_t> BatchesOfRanks();
  // "all 3 ranks had 5 batches", "uneven inputs: rank(s) 0 had 5 batches, rank(s) 1, 2 had 4 …". A
  // collective call too.
  std::string Describe();

 private:
  DataParallel& engine_;
  const UnevenInputsOptions options_;
  bool has_batch_ = false;
  int active_ = 0;
  std::vector<std::size_t> without_;  // ranks that had no batch in the last Next
  std::int64_t batches_ = 0;
  std::int64_t steps_ = 0;
};

// The factor by which a rank multiplies the sum of its samples' losses, so that the mean of
// gradients over ranks is that of all samples of the step, whatever their numbers are per rank
// (tokens, padded sequences, a smaller last batch): ranks / samples of all ranks. A collective.
double SumToMeanFactor(comm::ProcessGroup& group, std::int64_t samples_here);

}  // namespace ddp::rt
