// Optimizer state by name: whole tensors "average.fc.weight", or, with ZeRO-1, pieces
// "average.fc.weight[128:512]" (elements 128 to 511 of the flattened parameter), one list a rank.
// Any set of pieces that covers what a rank needs can be loaded: those of another world size, of
// another layout, or whole tensors. Plain functions.
#pragma once

#include <string>
#include <vector>

#include "runtime/ddp/named_tensor.h"

namespace ddp::rt {

struct PieceName {
  std::string tensor;
  std::int64_t begin = 0;
  std::int64_t end = -1;  // -1 = the whole tensor

  bool whole() const { return end < 0; }
  bool operator==(const PieceName&) const = default;
};

std::string FormatPieceName(const PieceName& piece);
// A name that has no range at its end is that of a whole tensor.
PieceName ParsePieceName(const std::string& name);

// Fills `to` (pieces or whole tensors, contiguous) from `from`. Error(kConfig) names the first
// element that nothing in `from` covers, or a piece whose size is not that of its name or shape.
void CopyPieces(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to,
                const std::string& where);

}  // namespace ddp::rt
