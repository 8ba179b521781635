#include "operator/ddpjob/extras.h"

#include <fmt/format.h>

#include "operator/api/names.h"

namespace ddp::job {
namespace {

std::pair<std::string, std::string> Blocked(const std::string& job, Extra extra,
                                            const ExtraView& view) {
  if (view.state == ExtraView::State::kUnsupported) {
    return {api::kReasonGangUnavailable,
            fmt::format("spec.scheduling.gang is Kubernetes, but {}: set it to None, or let a "
                        "cluster with gang scheduling run the job",
                        view.message)};
  }
  const auto taken = [](const char* reason, const char* kind, const std::string& name) {
    return std::pair<std::string, std::string>(
        reason, fmt::format("{} '{}' exists and belongs to somebody else: delete it, or give the "
                            "job another name",
                            kind, name));
  };
  switch (extra) {
    case Extra::kClaim:
      return taken(api::kReasonClaimNameTaken, "PersistentVolumeClaim", api::ClaimName(job));
    case Extra::kNetworkPolicy:
      return taken(api::kReasonPolicyNameTaken, "NetworkPolicy", job);
    case Extra::kPodGroup:
      break;
  }
  return taken(api::kReasonPodGroupNameTaken, "PodGroup", api::PodGroupName(job, view.attempt));
}

}  // namespace

std::vector<Extra> WantedExtras(const Observed& observed) {
  const api::Spec& spec = observed.job.spec;
  std::vector<Extra> wanted;
  if (spec.checkpoint && spec.checkpoint->claim_template) {
    wanted.push_back(Extra::kClaim);
  }
  if (observed.settings.network_policies) {
    wanted.push_back(Extra::kNetworkPolicy);
  }
  if (spec.scheduling.gang == api::Gang::kKubernetes) {
    wanted.push_back(Extra::kPodGroup);
  }
  return wanted;
}

ExtrasState LookAtExtras(const Observed& observed, const api::Status& status) {
  ExtrasState state;
  for (const Extra extra : WantedExtras(observed)) {
    const auto view = observed.extras.find(extra);
    if (view == observed.extras.end() ||
        (view->second.attempt != status.attempt && extra != Extra::kNetworkPolicy)) {
      state.missing.push_back(extra);
    } else if (view->second.state != ExtraView::State::kThere && !state.blocked) {
      state.blocked = Blocked(observed.job.metadata.name, extra, view->second);
    }
  }
  return state;
}

}  // namespace ddp::job
