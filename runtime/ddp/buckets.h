// How gradients are grouped for all-reduce. Pure: the same input gives the same plan on every rank.
#pragma once

#include <cstddef>
#include <vector>

namespace ddp::rt {

// A gradient to be placed.
struct GradientSize {
  int parameter = 0;  // index
  std::size_t bytes = 0;
  int kind = 0;  // gradients of different dtypes never share a bucket
};

struct BucketLimits {
  std::size_t first_bytes = 0;
  std::size_t bytes = 0;
  std::size_t last_bytes = 0;
};

// Groups gradients, given in the order in which backward produces them, into buckets in launch
// order. A bucket is closed before it would exceed its limit (one gradient alone may). The
// gradients that come last, as many as fit the last limit, have buckets of their own.
std::vector<std::vector<int>> PlanBuckets(const std::vector<GradientSize>& in_order,
                                          const BucketLimits& limits);

}  // namespace ddp::rt
