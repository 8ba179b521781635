// Which parameters got a gradient since the last ZeroGrad, here and on any rank. Owned by
// DataParallel; not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runtime/ddp/gradient_buckets.h"

namespace ddp::rt {

class UsedParameters {
 public:
  explicit UsedParameters(std::size_t count) : used_(count, 0) {}

  void Clear() { used_.assign(used_.size(), 0); }
  void Mark(std::size_t parameter) { used_[parameter] = 1; }

  // Starts to ask all ranks; then, for each parameter, whether some rank used it.
  void StartAgreement(comm::ProcessGroup& group, std::int64_t step);
  std::vector<bool> FinishAgreement();

 private:
  std::vector<std::int32_t> used_;
  at::Tensor shared_;
  comm::WorkPtr work_;
};

// "step 2: backward gave no gradient to 2 of 8 parameters ('a', 'b'): …", with what to do.
std::string DescribeUnused(const std::vector<Gradient>& gradients, const std::vector<bool>& ready,
                           std::int64_t step);

}  // namespace ddp::rt
