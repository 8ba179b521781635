// Moves the state of a run between tensors and checkpoints, and from rank 0 to the others.
#pragma once

#include <vector>

#include "runtime/checkpoint/folder.h"
#include "runtime/comm/process_group.h"
#include "runtime/ddp/data_parallel.h"

namespace ddp::rt::train {

// The elements of contiguous CPU tensors, under their names. The tensors must outlive the views.
std::vector<checkpoint::TensorView> Views(const std::vector<NamedTensor>& tensors);

// Copies what was loaded into tensors of the same names, types and shapes. Error(kConfig) names the
// first that is missing, left over or different; `where` is the checkpoint's path.
void Restore(const std::vector<checkpoint::TensorView>& from, const std::string& where,
             const std::vector<NamedTensor>& to);

// The same for a list in which some are pieces, "average.fc.weight[begin:end]", from whole tensors.
void RestorePieces(const std::vector<checkpoint::TensorView>& whole, const std::string& where,
                   const std::vector<NamedTensor>& to);

// Whether `from` has a tensor of each name.
bool HasAll(const std::vector<checkpoint::TensorView>& from, const std::vector<NamedTensor>& to);

// Gives all ranks rank 0's values.
void BroadcastTensors(comm::ProcessGroup& group, const std::vector<NamedTensor>& tensors);

}  // namespace ddp::rt::train
