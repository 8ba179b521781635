// Checkpoints of a run: where it starts from, what is saved, and going back. Rank 0 reads and
// writes; the others get what it has read. With a sharded optimizer each rank reads and writes its
// part of the optimizer's state itself. Owned by the training thread; calls are collective.
#pragma once

#include <optional>
#include <vector>

#include "runtime/checkpoint/saver.h"
#include "runtime/ddp/named_tensor.h"
#include "runtime/train/model.h"
#include "runtime/train/run_context.h"
#include "runtime/train/schedule.h"

namespace ddp::rt::train {

class Saving {
 public:
  Saving(const RunContext& run, const Model& model);

  // Where the newest valid checkpoint was taken, or the start. Rank 0's model is then as it was;
  // the gradient engine gives it to the others.
  Walk::Place ResumeModel();
  // The rest: `state` (of optimizer and so on) is restored on all ranks, now and by RollBack.
  void ResumeState(std::vector<NamedTensor> state);

  // Starts to save; nothing without checkpoints, or if the newest is of this place.
  void Save(const Walk::Place& at, double learning_rate);
  // All ranks return when the last checkpoint is on stable storage.
  void Finish();
  // The others are lost: a save that runs does not wait for their parts. Not a collective call.
  void Abandon(const std::string& why);
  // Model and state are those of the newest checkpoint again, on all ranks. Error(kSoftware) if
  // there is none, or if it has been gone back to too often.
  void RollBack();

  bool enabled() const { return enabled_; }

 private:
  checkpoint::SaverOptions Options();
  bool Load();
  void AwaitSavers();
  void RestoreState();
  void RestoreOwnState();
  bool writes_model() const { return run_.group.rank() == 0; }
  void CheckFinite(const Walk::Place& at) const;
  void CheckAlphabet(const at::Tensor& wanted) const;

  const RunContext& run_;
  std::vector<NamedTensor> model_;  // parameters, buffers, and of text the alphabet
  std::vector<NamedTensor> state_;
  checkpoint::State texts_;
  const bool sharded_;
  std::optional<checkpoint::ShardExchange> shards_;
  std::optional<checkpoint::Saver> saver_;
  std::optional<checkpoint::Loaded> loaded_;
  bool enabled_ = false;  // known on all ranks
  bool found_ = false;    // a checkpoint to resume from; the same
  int64_t rolled_back_to_ = -1;
  int rollbacks_ = 0;        // to that step
  int64_t saved_step_ = -1;  // the newest checkpoint's; without shards of rank 0 only
};

}  // namespace ddp::rt::train
