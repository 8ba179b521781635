// Models mlp, convnet and resnet18 (model.h).
#pragma once

#include <memory>

#include "runtime/train/model.h"

namespace ddp::rt::train {

std::unique_ptr<Model> MakeImageModel(const ModelConfig& config, const data::DataShape& shape,
                                      uint64_t seed, const at::Device& device);

}  // namespace ddp::rt::train
