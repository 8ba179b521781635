#include "operator/ddpjob/describe_plan.h"

#include <fmt/format.h>

#include "operator/api/names.h"
#include "operator/api/rank_set.h"

namespace ddp::job {
namespace {

std::string Describe(const CreateService& /*action*/, const Observed& observed) {
  return fmt::format("create service {}", observed.job.metadata.name);
}

std::string Describe(const CreateExtra& action, const Observed& observed) {
  const std::string& job = observed.job.metadata.name;
  switch (action.extra) {
    case Extra::kClaim:
      return fmt::format("create claim {}", api::ClaimName(job));
    case Extra::kNetworkPolicy:
      return fmt::format("create network policy {}", job);
    case Extra::kPodGroup:
      break;
  }
  return fmt::format("create pod group {}", api::PodGroupName(job, action.attempt));
}

std::string Describe(const ForceDeletePod& action, const Observed& /*observed*/) {
  return fmt::format("delete pod {} by force, its node is lost", action.name);
}

std::string Describe(const AskNodes& action, const Observed& /*observed*/) {
  return fmt::format("look at {}", fmt::join(action.nodes, ", "));
}

std::string Describe(const DeleteJob& /*action*/, const Observed& observed) {
  return fmt::format("delete job {}, its time to live is over", observed.job.metadata.name);
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
      action.keep_ended ? " that still run" : "",
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
