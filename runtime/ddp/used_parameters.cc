#include "runtime/ddp/used_parameters.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddp::rt {

void UsedParameters::StartAgreement(comm::ProcessGroup& group, std::int64_t step) {
  shared_ = at::from_blob(used_.data(), {static_cast<std::int64_t>(used_.size())}, at::kInt)
                .to(DeviceOf(group), at::kInt, /*non_blocking=*/false, /*copy=*/true);
  work_ = group.AllReduce(shared_.mutable_data_ptr(), used_.size(), comm::DataType::kI32,
                          comm::ReduceOp::kMax,
                          {.name = fmt::format("used parameters step {}", step),
                           .gpu_stream = StreamOf(shared_.device())});
}

std::vector<bool> UsedParameters::FinishAgreement() {
  work_->Wait();
  const at::Tensor host = shared_.cpu();
  const auto* const values = host.const_data_ptr<std::int32_t>();
  std::vector<bool> used(values, values + host.numel());
  return used;
}

std::string DescribeUnused(const std::vector<Gradient>& gradients, const std::vector<bool>& ready,
                           std::int64_t step) {
  constexpr std::size_t kMostNames = 8;
  std::vector<std::string> names;
  std::size_t unused = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!ready[i] && ++unused <= kMostNames) {
      names.push_back("'" + gradients[i].parameter.name + "'");
    }
  }
  return fmt::format(
      "step {}: backward gave no gradient to {} of {} parameters ({}{}): each must take part in "
      "the loss on every rank, or be frozen (requires_grad false); if that depends on the data, "
      "set find_unused_parameters (distributed.findUnusedParameters in a config)",
      step, unused, gradients.size(), fmt::join(names, ", "), unused > kMostNames ? ", ..." : "");
}

}  // namespace ddp::rt
