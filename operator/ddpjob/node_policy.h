// Which nodes to ask for, and what the answers prove: a node that is gone or out of reach explains
// an end without a word, and lets its pods be deleted by force. Pure.
#pragma once

#include <string>
#include <vector>

#include "operator/ddpjob/plan.h"

namespace ddp::job {

struct NodeQuestions {
  std::vector<std::string> nodes;  // to be asked for now, sorted, some at a time
  std::optional<TimePoint> next;   // when to think of it again
};

// The nodes of recent failures whose cause may still move, at kFirstNodeLook and kSecondNodeLook
// after each; and those of pods that are overdue (see below).
NodeQuestions NodesToAsk(const Observed& observed, const api::Status& status, TimePoint now);

// Pods whose grace has ended without them going, on a node that is gone, or has been out of reach
// for longer than Settings::force_delete_after: they would hold their volumes for ever.
std::vector<ForceDeletePod> PodsToForce(const Observed& observed, TimePoint now);

}  // namespace ddp::job
