// Accuracy and loss of a model on a set in which every sample counts exactly once, whatever the
// number of ranks. All ranks call it; all get the same result.
#pragma once

#include "runtime/comm/process_group.h"
#include "runtime/data/idx.h"
#include "runtime/train/model.h"

namespace ddp::rt::train {

struct Evaluation {
  int64_t correct = 0;
  int64_t count = 0;
  double loss = 0;  // mean

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(count); }
};

Evaluation Evaluate(const Model& model, const data::ImageSet& set, comm::ProcessGroup& group);

}  // namespace ddp::rt::train
