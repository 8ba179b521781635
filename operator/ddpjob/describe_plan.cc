#include "operator/ddpjob/describe_plan.h"

#include <fmt/format.h>

#include "operator/api/rank_set.h"

namespace ddp::job {
namespace {

std::string Describe(const CreateService& /*action*/, const Observed& observed) {
  return fmt::format("create service {}", observed.job.metadata.name);
}

std::string Describe(const CreatePods& action, const Observed& /*observed*/) {
  api::RankSet ranks;
  for (const int rank : action.ranks) {
    ranks.Add(rank);
  }
  return fmt::format("create the pods of attempt {}: {}", action.attempt, ranks.ToString());
}

std::string Describe(const DeletePods& action, const Observed& /*observed*/) {
  return fmt::format(
      "delete the pods of attempt {}{}{}", action.attempt,
      action.keep_terminated ? " that still run" : "",
      action.grace_seconds ? fmt::format(", grace {} s", *action.grace_seconds) : std::string());
}

}  // namespace

std::vector<std::string> DescribePlan(const Observed& observed, const Plan& plan) {
  std::vector<std::string> sentences;
  if (plan.urgency != Urgency::kNone) {
    sentences.push_back(fmt::format("write the status: {}, attempt {}",
                                    api::Name(plan.status.phase), plan.status.attempt));
  }
  for (const Action& action : plan.actions) {
    sentences.push_back(
        std::visit([&](const auto& typed) { return Describe(typed, observed); }, action));
  }
  for (const Event& event : plan.events) {
    sentences.push_back(fmt::format("say {}: {}", event.reason, event.message));
  }
  return sentences;
}

}  // namespace ddp::job
