#include "operator/ddpjob/node_policy.h"

#include <algorithm>
#include <set>

#include "operator/ddpjob/provisional.h"

namespace ddp::job {
namespace {

// A rack that burns is no reason for a thousand requests in one turn.
constexpr size_t kMaxAtOnce = 16;

bool Overdue(const PodRecord& pod, TimePoint now) {
  return pod.deletion_time && !pod.node.empty() &&
         now >= *pod.deletion_time + api::kTerminationMargin;
}

const NodeLook* LookAt(const Observed& observed, const std::string& node) {
  const auto it = observed.nodes.find(node);
  return it == observed.nodes.end() ? nullptr : &it->second;
}

class Questions {
 public:
  Questions(const Observed& observed, TimePoint now) : observed_(observed), now_(now) {}

  // Once at or after `due`.
  void Ask(const std::string& node, TimePoint due) {
    if (node.empty()) {
      return;
    }
    const NodeLook* look = LookAt(observed_, node);
    if (look != nullptr && look->time >= due) {
      return;
    }
    if (now_ >= due) {
      nodes_.insert(node);
    } else {
      next_ = std::min(next_.value_or(due), due);
    }
  }
  NodeQuestions Result() const {
    NodeQuestions result{{nodes_.begin(), nodes_.end()}, next_};
    result.nodes.resize(std::min(result.nodes.size(), kMaxAtOnce));
    return result;
  }

 private:
  const Observed& observed_;
  TimePoint now_;
  std::set<std::string> nodes_;
  std::optional<TimePoint> next_;
};

void AskForFailures(const Observed& observed, const api::Status& status, TimePoint now,
                    Questions& questions) {
  for (const api::Failure& failure : status.failures) {
    if (status.finished() || !MayMove(failure, now)) {
      continue;
    }
    for (const auto delay : {api::kFirstNodeLook, api::kSecondNodeLook}) {
      questions.Ask(failure.node, failure.time + delay);
      for (const PodRecord& pod : observed.pods) {
        if (BlamesOthers(failure) && pod.attempt == failure.attempt && Overdue(pod, now)) {
          questions.Ask(pod.node, failure.time + delay);
        }
      }
    }
  }
}

void AskForOverduePods(const Observed& observed, Questions& questions) {
  if (!observed.settings.force_delete_after) {
    return;
  }
  for (const PodRecord& pod : observed.pods) {
    if (!pod.deletion_time || pod.node.empty() || pod.terminated()) {
      continue;
    }
    const TimePoint first =
        *pod.deletion_time + api::kTerminationMargin + *observed.settings.force_delete_after;
    const NodeLook* look = LookAt(observed, pod.node);
    // Asked again at the same pace for as long as the pod stays.
    questions.Ask(pod.node, look == nullptr || look->time < first
                                ? first
                                : look->time + *observed.settings.force_delete_after);
  }
}

}  // namespace

NodeQuestions NodesToAsk(const Observed& observed, const api::Status& status, TimePoint now) {
  if (!observed.nodes_can_fail) {
    return {};
  }
  Questions questions(observed, now);
  AskForFailures(observed, status, now, questions);
  AskForOverduePods(observed, questions);
  return questions.Result();
}

std::vector<ForceDeletePod> PodsToForce(const Observed& observed, TimePoint now) {
  std::vector<ForceDeletePod> list;
  if (!observed.settings.force_delete_after) {
    return list;
  }
  for (const PodRecord& pod : observed.pods) {
    if (!Overdue(pod, now) || pod.terminated()) {
      continue;
    }
    const NodeLook* look = LookAt(observed, pod.node);
    if (look != nullptr && look->lost &&
        (!look->lost_since || now >= *look->lost_since + *observed.settings.force_delete_after)) {
      list.push_back({pod.name, pod.uid});
    }
  }
  return list;
}

}  // namespace ddp::job
