// The norm of all gradients together, taken on the flat buckets and the same on all ranks, also
// where each rank holds only its part of them. Collective calls, after backward (and after
// LossScaler::Unscale, if there is one). Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/ddp/data_parallel.h"

namespace ddp::rt {

// The 2-norm of the mean gradients: double, one element, on the engine's device. Not finite exactly
// if some gradient is not, or if it is too large for its square.
at::Tensor GradientNorm(const DataParallel& engine);

// Scales all gradients by max_norm / norm if their norm is larger, and returns the norm that they
// had. The host does not wait for a GPU. Gradients without a finite norm all become NaN, as in
// PyTorch.
at::Tensor ClipGradientNorm(const DataParallel& engine, double max_norm);

// What PyTorch adds to the norm before it divides by it.
inline constexpr double kClipEpsilon = 1e-6;

}  // namespace ddp::rt
