#include "runtime/comm/hosts.h"

#include <gtest/gtest.h>

namespace ddp::rt::comm {
namespace {

TEST(Hosts, GroupRanksInTheirOrder) {
  const Hosts hosts = GroupByHost({"b", "b", "a", "", "", "a"});
  const std::vector<std::vector<int>> expected = {{0, 1}, {2, 5}, {3}, {4}};
  EXPECT_EQ(hosts.ranks, expected);
  EXPECT_EQ(hosts.HostOf(5), 1U);
  EXPECT_EQ(hosts.PlaceOf(5), 1U);
  EXPECT_EQ(hosts.fewest(), 1U);
}

TEST(Hosts, AreWorthAHierarchyIfSomeShareAndAllFollowOneAnother) {
  const struct {
    std::vector<std::string> identities;
    std::string why_not;
  } kCases[] = {
      {{"a", "a", "b", "b"}, ""},
      {{"a", "b", "b"}, ""},
      {{"a", "b", "c"}, "no two ranks share a host (or network namespace)"},
      {{"", ""}, "no two ranks share a host (or network namespace)"},
      {{"a", "b", "a", "b"}, "ranks 0 and 2 share a host, but others between them do not"},
  };
  for (const auto& each : kCases) {
    EXPECT_EQ(WhyNotHierarchical(GroupByHost(each.identities)), each.why_not);
  }
}

}  // namespace
}  // namespace ddp::rt::comm
