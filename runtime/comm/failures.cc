#include "runtime/comm/failures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddp::rt::comm {

Failure DeadlineFailure(int rank, const std::string& call, const Deadline& deadline,
                        const std::vector<int>& missing) {
  return {missing.empty() ? rank : missing.front(), ExitCode::kUnavailable,
          fmt::format("rank {} gave up {} after {}: rank(s) {} had not arrived", rank, call,
                      deadline.TimeoutText(), fmt::join(missing, ", "))};
}

void CheckSignature(Control& control, int rank, const Signature& ours, int peer,
                    const Signature& theirs) {
  if (!Same(ours, theirs)) {
    control.Fail(
        {peer, ExitCode::kSoftware,
         fmt::format("rank {} is in {}, but rank {} is in {}: all ranks must make the same "
                     "calls in the same order",
                     rank, Describe(ours), peer, Describe(theirs))});
  }
}

}  // namespace ddp::rt::comm
