// The sentences in which transports say what went wrong. Pure.
#pragma once

#include <string>
#include <vector>

#include "runtime/comm/call.h"
#include "runtime/comm/control.h"

namespace ddp::rt::comm {

// The deadline of a call passed, and these ranks had not come (never empty: else this rank alone is
// late).
Failure DeadlineFailure(int rank, const std::string& call, const Deadline& deadline,
                        const std::vector<int>& missing);

// Fails the group if a peer is in another call than this rank.
void CheckSignature(Control& control, int rank, const Signature& ours, int peer,
                    const Signature& theirs);

}  // namespace ddp::rt::comm
