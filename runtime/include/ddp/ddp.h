// Data-parallel training in C++, for those who know torch.nn.parallel.DistributedDataParallel:
//
//   int main() {
//     return ddp::Main([] {
//       ddp::InitProcessGroup();                                  // env://
//       const at::Device device = ddp::SetDevice(ddp::LocalRank());
//       auto net = std::make_shared<Net>();
//       net->to(device);
//       ddp::DistributedDataParallel model(net);
//       torch::optim::SGD optimizer(net->parameters(), 0.1);
//       ddp::DistributedSampler sampler({.samples = n});
//       ddp::Checkpointer checkpoints("checkpoints");
//       for (int epoch = 0; epoch < epochs; ++epoch) {
//         sampler.SetEpoch(epoch);
//         for (… batches of sampler.indices() …) {
//           optimizer.zero_grad();
//           loss(model(x), y).backward();                         // .grad is the mean over ranks
//           optimizer.step();
//         }
//         checkpoints.Save({.step = …, .epoch = epoch + 1}, *net, optimizer);
//       }
//       ddp::DestroyProcessGroup();
//     });
//   }
//
// One process is one rank, and has one process group. Everything here is called by one thread, the
// one that trains, and by all ranks alike, unless a comment says otherwise. Failures are ddp::Error
// (or what torch throws); a lost peer is an Error within the timeouts of InitOptions, never a hang.
#pragma once

#include "ddp/checkpointer.h"               // IWYU pragma: export
#include "ddp/distributed_data_parallel.h"  // IWYU pragma: export
#include "ddp/distributed_sampler.h"        // IWYU pragma: export
#include "ddp/error.h"                      // IWYU pragma: export
#include "ddp/mixed_precision.h"            // IWYU pragma: export
#include "ddp/optimizer.h"                  // IWYU pragma: export
#include "ddp/process_group.h"              // IWYU pragma: export
#include "ddp/sync_batch_norm.h"            // IWYU pragma: export
