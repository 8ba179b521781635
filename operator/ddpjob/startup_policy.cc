#include "operator/ddpjob/startup_policy.h"

#include <fmt/format.h>

namespace ddp::job {

std::optional<StartupTrouble> FindStartupTrouble(const std::vector<const PodRecord*>& pods,
                                                 int processes) {
  const PodRecord* worst = nullptr;
  int alike = 0;
  for (const PodRecord* pod : pods) {
    const bool stuck =
        pod != nullptr && pod->phase == PodPhase::kPending && !pod->started && !pod->reason.empty();
    if (!stuck) {
      continue;
    }
    worst = worst == nullptr ? pod : worst;
    alike += pod->reason == worst->reason ? 1 : 0;
  }
  if (worst == nullptr) {
    return std::nullopt;
  }
  const std::string others = alike > 1 ? fmt::format(" and {} more", alike - 1) : "";
  return StartupTrouble{
      worst->reason, fmt::format("rank {} (pod {}){}: {}", worst->rank * processes, worst->name,
                                 others, worst->message.empty() ? worst->reason : worst->message)};
}

}  // namespace ddp::job
