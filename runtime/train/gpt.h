// Model gpt (model.h): a decoder-only transformer of the shape, names and initialisation of nanoGPT
// (normal, 0.02; projections into the residual stream smaller by the root of their number; the last
// layer's weights are the token embedding's).
#pragma once

#include <memory>

#include "runtime/train/model.h"

namespace ddp::rt::train {

std::unique_ptr<Model> MakeGpt(const ModelConfig& config, const data::DataShape& shape,
                               uint64_t seed, const at::Device& device);

// Continues `prompt` by so many tokens, each drawn from the model's scores divided by
// `temperature`; the same seed gives the same tokens. The model sees the last `context` at most.
std::vector<int64_t> Generate(Model& model, std::vector<int64_t> prompt, int64_t count,
                              int64_t context, double temperature, uint64_t seed);

}  // namespace ddp::rt::train
