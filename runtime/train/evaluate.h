// Accuracy and loss of a model on a set in which every sample counts exactly once, whatever the
// number of ranks. All ranks call it; all get the same result.
#pragma once

#include "runtime/train/model.h"
#include "runtime/train/run_context.h"

namespace ddp::rt::train {

struct Evaluation {
  int64_t correct = 0;
  int64_t count = 0;  // of labels: samples, or tokens
  double loss = 0;    // mean

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(count); }
};

Evaluation Evaluate(const RunContext& run, Model& model, const data::Dataset& set);

}  // namespace ddp::rt::train
