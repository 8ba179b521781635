#include "runtime/ddp/gradient_buckets.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace ddp::rt {
namespace {

// Gradients begin at cache lines.
constexpr std::size_t kAlignment = 64;
std::size_t RoundUp(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

bool IsFloat(comm::DataType type) {
  return type != comm::DataType::kI32 && type != comm::DataType::kI64;
}

}  // namespace

GradientBuckets::GradientBuckets(const std::vector<NamedTensor>& parameters, BucketRules rules)
    : rules_(rules) {
  for (const NamedTensor& named : parameters) {
    if (!named.tensor.requires_grad()) {
      continue;
    }
    Gradient& gradient = gradients_.emplace_back();
    gradient.parameter = named;
    gradient.type = ElementTypeOf(named);
    if (!IsFloat(gradient.type)) {
      throw Error(ExitCode::kConfig, fmt::format("parameter '{}' has integer elements: gradients "
                                                 "are averaged in floats",
                                                 named.name));
    }
    gradient.bytes = RoundUp(
        static_cast<std::size_t>(named.tensor.numel()) * comm::SizeOf(gradient.type), kAlignment);
    const Gradient& first = gradients_.front();
    if (named.tensor.device() != first.parameter.tensor.device()) {
      throw Error(ExitCode::kConfig,
                  fmt::format("parameter '{}' is on {}, but '{}' is on {}: a replica lies on one "
                              "device",
                              named.name, named.tensor.device().str(), first.parameter.name,
                              first.parameter.tensor.device().str()));
    }
    device_ = named.tensor.device();
  }
}

std::size_t GradientBuckets::BytesOf(const std::vector<int>& bucket) const {
  std::size_t bytes = 0;
  for (const int i : bucket) {
    bytes += gradients_[static_cast<std::size_t>(i)].bytes;
  }
  return RoundUp(bytes, kAlignment * static_cast<std::size_t>(rules_.parts));
}

void GradientBuckets::Place(const std::vector<int>& order, comm::ProcessGroup& group,
                            const std::string& name) {
  std::vector<GradientSize> sizes;
  sizes.reserve(order.size());
  for (const int i : order) {
    const Gradient& gradient = gradients_[static_cast<std::size_t>(i)];
    sizes.push_back({i, gradient.bytes, static_cast<int>(gradient.type)});
  }
  std::vector<std::vector<int>> plan = PlanBuckets(sizes, rules_.limits);
  std::size_t total = 0;
  for (const auto& bucket : plan) {
    total += BytesOf(bucket);
  }
  if (total > memory_.size() || buckets_.empty()) {
    memory_ = TensorMemory(group, device_, total, name);
  }
  buckets_.clear();
  std::size_t offset = 0;
  for (auto& members : plan) {
    PlaceBucket(std::move(members), offset);
    offset += buckets_.back().flat.nbytes();
  }
}

void GradientBuckets::PlaceBucket(std::vector<int> members, std::size_t offset) {
  const std::size_t index = buckets_.size();
  GradientBucket& bucket = buckets_.emplace_back();
  const Gradient& first = gradients_[static_cast<std::size_t>(members.front())];
  bucket.type = first.type;
  const auto options = first.parameter.tensor.options();
  const std::size_t element = comm::SizeOf(bucket.type);
  bucket.flat =
      memory_.At(offset, {static_cast<std::int64_t>(BytesOf(members) / element)}, {1}, options);
  std::size_t within = 0;
  for (const int i : members) {
    Gradient& gradient = gradients_[static_cast<std::size_t>(i)];
    const at::Tensor& tensor = gradient.parameter.tensor;
    // The parameter's own strides where they are dense: autograd then adds in place.
    const bool dense = tensor.is_non_overlapping_and_dense();
    gradient.place = memory_.At(offset + within, tensor.sizes(),
                                dense ? tensor.strides() : tensor.contiguous().strides(), options);
    gradient.bucket = index;
    gradient.offset = static_cast<std::int64_t>(within / element);
    within += gradient.bytes;
  }
  bucket.gradients = std::move(members);
}

void GradientBuckets::Attach() {
  for (Gradient& gradient : gradients_) {
    gradient.parameter.tensor.mutable_grad() = gradient.place;
  }
}

void GradientBuckets::Zero() {
  const at::NoGradGuard no_grad;
  for (const GradientBucket& bucket : buckets_) {
    bucket.flat.zero_();
  }
}

bool GradientBuckets::ReplaceMissing() {
  const auto missing = [](const Gradient& g) { return !g.parameter.tensor.grad().defined(); };
  if (std::all_of(gradients_.begin(), gradients_.end(), missing)) {
    Zero();
    Attach();
    return true;
  }
  const at::NoGradGuard no_grad;
  for (Gradient& gradient : gradients_) {
    if (missing(gradient)) {
      gradient.place.zero_();
      gradient.parameter.tensor.mutable_grad() = gradient.place;
    }
  }
  return false;
}

std::vector<int> GradientBuckets::Order() const {
  std::vector<int> order;
  order.reserve(gradients_.size());
  for (const GradientBucket& bucket : buckets_) {
    order.insert(order.end(), bucket.gradients.begin(), bucket.gradients.end());
  }
  return order;
}

std::string GradientBuckets::Describe() const {
  std::string text;
  for (const Gradient& gradient : gradients_) {
    text += fmt::format("{} bucket {} at {} length {}\n", gradient.parameter.name, gradient.bucket,
                        gradient.offset, gradient.bytes);
  }
  return text;
}

}  // namespace ddp::rt
