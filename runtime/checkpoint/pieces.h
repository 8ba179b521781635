// Optimizer state in pieces: with ZeRO-1 a rank has elements begin..end of "average.fc.weight",
// flattened, as a tensor named "average.fc.weight[begin:end]". Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace ddp::rt::checkpoint {

struct PieceName {
  std::string_view whole;
  int64_t begin = 0;
  int64_t end = 0;
};
// Nothing if the name is not of a piece.
std::optional<PieceName> ParsePieceName(std::string_view name);

// Tensors and the memory of those that were put together; moves, does not copy.
struct Joined {
  std::vector<TensorView> tensors;
  std::vector<std::vector<std::byte>> bytes;

  Joined() = default;
  Joined(Joined&&) = default;
  Joined& operator=(Joined&&) = default;
};

// Whole tensors from all ranks' pieces; those that are whole already (as "step", which every rank
// has) are taken once. A whole one has the shape of the model's tensor whose name its own ends
// with, else one dimension. Error(kData) names what is missing or there twice.
Joined JoinPieces(const std::vector<TensorView>& pieces, const std::vector<TensorView>& model);

}  // namespace ddp::rt::checkpoint
