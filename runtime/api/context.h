// What a process has between InitProcessGroup and DestroyProcessGroup. Internal to this folder.
#pragma once

#include <memory>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/comm/process_group.h"
#include "runtime/ddp/sync_batch_norm.h"
#include "runtime/store/rendezvous.h"

namespace ddp {

struct Context {
  rt::RankEnv env;
  bool gpu = false;
  std::unique_ptr<rt::store::Rendezvous> rendezvous;
  std::unique_ptr<rt::comm::ProcessGroup> group;
  std::vector<std::unique_ptr<rt::SyncedBatchNorms>> batch_norms;
  int models = 0;  // wrapped so far: each has keys of its own in the store
};

// Error(kSoftware) before InitProcessGroup.
Context& CurrentContext();

}  // namespace ddp
