// Chooses where a rank computes. Called once, at start.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace ddp::rt::train {

// `wanted` is train.device: auto, cpu or cuda. The GPU is that of the local rank, which becomes the
// current one. Error(kConfig) says why a GPU that is wanted can't be had; with auto the log does,
// and the CPU is taken.
at::Device ChooseDevice(const std::string& wanted, int local_rank);

}  // namespace ddp::rt::train
