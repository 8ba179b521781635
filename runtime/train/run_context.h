// What the parts of a training run share: all of it outlives them. A plain value.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/checkpoint/folder.h"
#include "runtime/comm/process_group.h"
#include "runtime/data/dataset.h"
#include "runtime/store/store.h"
#include "runtime/train/board.h"
#include "runtime/train/config.h"
#include "runtime/train/signals.h"

namespace ddp::rt::train {

struct RunContext {
  const Config& config;
  const data::Datasets& data;
  checkpoint::CheckpointFolder* folder;  // null on all ranks but 0, and without checkpoints
  comm::ProcessGroup& group;             // of memory of the host
  comm::ProcessGroup& device_group;      // of memory of `device`; on the CPU the same
  comm::ProcessGroup* norm_group;        // for distributed.syncBatchNorm, else null
  store::Store& store;
  const StopSignals& signals;
  Board& board;
  at::Device device;
};

}  // namespace ddp::rt::train
