// What a job may need beside its service and pods, and which must be there before its pods are
// made: a claim from a template, a NetworkPolicy, a PodGroup. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/ddpjob/observed.h"

namespace ddp::job {

// In the order in which they are made.
std::vector<Extra> WantedExtras(const Observed& observed);

struct ExtrasState {
  std::vector<Extra> missing;  // to be made
  // One of them can't be made: why, as a condition's reason and sentence.
  std::optional<std::pair<std::string, std::string>> blocked;
};
ExtrasState LookAtExtras(const Observed& observed, const api::Status& status);

}  // namespace ddp::job
