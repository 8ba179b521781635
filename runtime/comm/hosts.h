// Which ranks share a host. Plain values, pure functions.
#pragma once

#include <string>
#include <vector>

namespace ddp::rt::comm {

// The ranks of each host in ascending order, hosts in the order of their first rank.
struct Hosts {
  std::vector<std::vector<int>> ranks;

  std::size_t count() const { return ranks.size(); }
  // The host of a rank, and its place among that host's ranks.
  std::size_t HostOf(int rank) const;
  std::size_t PlaceOf(int rank) const;
  std::size_t fewest() const;  // ranks on the host that has fewest
};

// 0 … world_size - 1.
std::vector<int> AllRanks(int world_size);

// By what each rank says of its host: equal for those that could share memory, "" for one that
// cannot tell (it is alone on its own).
Hosts GroupByHost(const std::vector<std::string>& identities);

// Why sums cannot be taken host by host in the order of ranks; "" if they can: some host has
// several ranks, and every host's follow one another.
std::string WhyNotHierarchical(const Hosts& hosts);

}  // namespace ddp::rt::comm
