#include "runtime/ddp/bucket_reducer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "runtime/base/error.h"

namespace ddp::rt {

BucketReducer::BucketReducer(const GradientBuckets& buckets, comm::ProcessGroup& group,
                             Options options)
    : buckets_(buckets), group_(group), options_(options) {}

BucketReducer::~BucketReducer() {
  for (Slot& slot : slots_) {
    if (slot.work == nullptr) {
      continue;
    }
    if (!slot.work->Done()) {
      group_.Abort("gradients were dropped while they were being reduced");
    }
    try {
      slot.work->Wait();  // its memory goes away with this object
    } catch (const std::exception&) {
      slot.work.reset();  // whoever dropped the gradients has a failure of their own to report
    }
  }
}

at::Tensor BucketReducer::PartOf(const at::Tensor& flat) const {
  if (!options_.scatter) {
    return flat;
  }
  const std::int64_t length = flat.numel() / group_.world_size();
  return flat.narrow(0, group_.rank() * length, length);
}

void BucketReducer::Reset() {
  const bool compress = options_.compression != Compression::kNone && group_.world_size() > 1;
  const at::ScalarType narrow =
      options_.compression == Compression::kBF16 ? at::kBFloat16 : at::kHalf;
  constexpr std::size_t kNarrowBytes = 2;
  const auto is_wide = [](const GradientBucket& bucket) {
    return comm::SizeOf(bucket.type) > kNarrowBytes;
  };
  std::size_t bytes = 0;
  for (const GradientBucket& bucket : buckets_.buckets()) {
    bytes += static_cast<std::size_t>(bucket.flat.numel()) * kNarrowBytes;
  }
  if (compress && bytes > compressed_.size()) {
    compressed_ = TensorMemory(group_, buckets_.device(), bytes, "compressed gradients");
  }
  slots_.clear();
  std::size_t offset = 0;
  for (const GradientBucket& bucket : buckets_.buckets()) {
    Slot& slot = slots_.emplace_back();
    slot.flat = slot.sent = bucket.flat;
    slot.type = bucket.type;
    if (compress && is_wide(bucket)) {
      slot.sent =
          compressed_.At(offset, {slot.flat.numel()}, {1}, slot.flat.options().dtype(narrow));
      slot.type = narrow == at::kHalf ? comm::DataType::kF16 : comm::DataType::kBF16;
      offset += slot.sent.nbytes();
    }
    slot.part = PartOf(slot.flat);
    slot.sent_part = PartOf(slot.sent);
  }
}

void BucketReducer::Launch(std::size_t bucket, std::int64_t step) {
  Slot& slot = slots_[bucket];
  auto op = comm::ReduceOp::kMean;
  if (slot.sent.data_ptr() != slot.flat.data_ptr()) {
    const at::NoGradGuard no_grad;
    slot.sent.copy_(slot.flat.div_(group_.world_size()));
    op = comm::ReduceOp::kSum;
  }
  comm::OpOptions options{.name = fmt::format("bucket {} step {}", bucket, step),
                          .gpu_stream = StreamOf(buckets_.device())};
  if (options_.scatter) {
    slot.work = group_.ReduceScatter(slot.sent.const_data_ptr(), slot.sent_part.mutable_data_ptr(),
                                     static_cast<std::size_t>(slot.sent_part.numel()), slot.type,
                                     op, std::move(options));
  } else {
    slot.work =
        group_.AllReduce(slot.sent.mutable_data_ptr(), static_cast<std::size_t>(slot.sent.numel()),
                         slot.type, op, std::move(options));
  }
}

void BucketReducer::Wait(std::size_t bucket) {
  Slot& slot = slots_[bucket];
  const comm::WorkPtr work = std::move(slot.work);
  slot.work.reset();
  work->Wait();
  if (slot.sent.data_ptr() != slot.flat.data_ptr()) {
    const at::NoGradGuard no_grad;
    slot.part.copy_(slot.sent_part);
  }
}

}  // namespace ddp::rt
