// Where gradients lie: in flat buckets of one piece of memory, each parameter's .grad a tensor on
// its place there. Knows nothing of backward or of reducing. Owned by DataParallel; not
// thread-safe.
#pragma once

#include <vector>

#include "runtime/ddp/buckets.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp::rt {

struct Gradient {
  NamedTensor parameter;
  comm::DataType type = comm::DataType::kF32;
  std::size_t bytes = 0;    // in its bucket, the gap to the next one included
  std::size_t bucket = 0;   // index
  std::int64_t offset = 0;  // in elements, within the bucket
  at::Tensor place;         // in the bucket, with the shape of the parameter
};

struct GradientBucket {
  std::vector<int> gradients;  // indices
  at::Tensor flat;
  comm::DataType type = comm::DataType::kF32;
};

struct BucketRules {
  BucketLimits limits;
  // Each bucket can be cut into this many equal parts.
  int parts = 1;
};

class GradientBuckets {
 public:
  // Error(kConfig) names a parameter of another device than the first, or of a type that can't be
  // averaged.
  GradientBuckets(const std::vector<NamedTensor>& parameters, BucketRules rules);

  // Lays buckets out in this order of gradients (indices). The second time in the same memory, as
  // far as it goes, so what was there before is lost.
  void Place(const std::vector<int>& order, comm::ProcessGroup& group, const std::string& name);
  // Makes each .grad the tensor in the bucket.
  void Attach();
  void Zero();
  // Gradients that somebody has taken away (zero_grad to nothing) come back as zeros. True if all
  // had been.
  bool ReplaceMissing();

  std::size_t size() const { return gradients_.size(); }
  Gradient& gradient(std::size_t i) { return gradients_[i]; }
  std::vector<Gradient>& gradients() { return gradients_; }
  const std::vector<Gradient>& gradients() const { return gradients_; }
  const std::vector<GradientBucket>& buckets() const { return buckets_; }
  const at::Device& device() const { return device_; }
  // All indices in launch order.
  std::vector<int> Order() const;
  // Equal exactly if names, sizes and places of all gradients are.
  std::string Describe() const;

 private:
  std::size_t BytesOf(const std::vector<int>& bucket) const;
  void PlaceBucket(std::vector<int> members, std::size_t offset);

  const BucketRules rules_;
  at::Device device_{at::kCPU};
  std::vector<Gradient> gradients_;
  std::vector<GradientBucket> buckets_;
  TensorMemory memory_;
};

}  // namespace ddp::rt
