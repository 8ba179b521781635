// Reduces one bucket of gradients at a time: starts it, waits for it, and casts on the way if
// gradients are sent in 16 bits. Owned by DataParallel; not thread-safe.
#pragma once

#include <vector>

#include "runtime/ddp/gradient_buckets.h"

namespace ddp::rt {

// Gradients are divided by the number of ranks before they are cast, so that a sum can't overflow
// where the mean would not; the sum is taken in float and rounded once.
enum class Compression { kNone, kBF16, kF16 };

class BucketReducer {
 public:
  struct Options {
    Compression compression = Compression::kNone;
    // Each rank gets the mean of its part of every bucket only (ZeRO-1).
    bool scatter = false;
  };
  BucketReducer(const GradientBuckets& buckets, comm::ProcessGroup& group, Options options);
  // Ends what runs: aborts the group if some of it is not done.
  ~BucketReducer();
  BucketReducer(const BucketReducer&) = delete;
  BucketReducer& operator=(const BucketReducer&) = delete;

  // After each new layout of the buckets.
  void Reset();
  void Launch(std::size_t bucket, std::int64_t step);
  void Wait(std::size_t bucket);
  // What this rank holds the mean of, after Wait: the bucket, or its own part of it.
  const at::Tensor& part(std::size_t bucket) const { return slots_[bucket].part; }

 private:
  struct Slot {
    at::Tensor flat;
    at::Tensor part;       // of `flat`
    at::Tensor sent;       // `flat`, or its 16-bit image
    at::Tensor sent_part;  // of `sent`
    comm::DataType type = comm::DataType::kF32;
    comm::WorkPtr work;
  };

  at::Tensor PartOf(const at::Tensor& flat) const;

  const GradientBuckets& buckets_;
  comm::ProcessGroup& group_;
  const Options options_;
  std::vector<Slot> slots_;
  TensorMemory compressed_;
};

}  // namespace ddp::rt
