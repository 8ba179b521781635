#include "runtime/comm/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/error.h"

namespace ddp::rt::comm {

std::size_t Hosts::HostOf(int rank) const {
  for (std::size_t h = 0; h < ranks.size(); ++h) {
    if (std::find(ranks[h].begin(), ranks[h].end(), rank) != ranks[h].end()) {
      return h;
    }
  }
  Die(__FILE__, __LINE__, "a rank without a host");
}

std::size_t Hosts::PlaceOf(int rank) const {
  const auto& mine = ranks[HostOf(rank)];
  return static_cast<std::size_t>(std::find(mine.begin(), mine.end(), rank) - mine.begin());
}

std::size_t Hosts::fewest() const {
  std::size_t least = ranks.front().size();
  for (const auto& host : ranks) {
    least = std::min(least, host.size());
  }
  return least;
}

std::vector<int> AllRanks(int world_size) {
  std::vector<int> ranks(static_cast<std::size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Hosts GroupByHost(const std::vector<std::string>& identities) {
  Hosts hosts;
  std::vector<std::string> seen;
  for (std::size_t r = 0; r < identities.size(); ++r) {
    const auto found =
        identities[r].empty() ? seen.end() : std::find(seen.begin(), seen.end(), identities[r]);
    const auto host = static_cast<std::size_t>(found - seen.begin());
    if (found == seen.end()) {
      seen.push_back(identities[r]);
      hosts.ranks.emplace_back();
    }
    hosts.ranks[host].push_back(static_cast<int>(r));
  }
  return hosts;
}

std::string WhyNotHierarchical(const Hosts& hosts) {
  bool shared = false;
  for (const auto& ranks : hosts.ranks) {
    shared |= ranks.size() > 1;
    if (ranks.back() - ranks.front() + 1 != static_cast<int>(ranks.size())) {
      return fmt::format("ranks {} and {} share a host, but others between them do not",
                         ranks.front(), ranks.back());
    }
  }
  return shared ? "" : "no two ranks share a host (or network namespace)";
}

}  // namespace ddp::rt::comm
