#include "runtime/ddp/buckets.h"

#include <gtest/gtest.h>

namespace ddp::rt {
namespace {

using Plan = std::vector<std::vector<int>>;

struct Case {
  const char* name;
  std::vector<std::size_t> bytes;
  std::vector<int> kinds;  // empty: all the same
  BucketLimits limits;
  Plan plan;
};

TEST(PlanBuckets, Table) {
  const Case cases[] = {
      {"nothing", {}, {}, {1, 10, 1}, {}},
      {"one", {100}, {}, {1, 10, 1}, {{0}}},
      {"all fit the last", {1, 2, 3}, {}, {5, 10, 6}, {{0, 1, 2}}},
      {"small first, small last",
       {2, 2, 5, 5, 5, 1, 1},
       {},
       {4, 10, 2},
       {{0, 1}, {2, 3}, {4}, {5, 6}}},
      {"one alone may exceed", {50, 1, 50, 50}, {}, {4, 10, 2}, {{0}, {1}, {2}, {3}}},
      {"kinds never mix, order is that of the last gradient",
       {2, 2, 2, 2, 9},
       {0, 1, 0, 1, 0},
       {10, 10, 1},
       {{0, 2}, {1, 3}, {4}}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<GradientSize> gradients;
    for (std::size_t i = 0; i < c.bytes.size(); ++i) {
      gradients.push_back({static_cast<int>(i), c.bytes[i], c.kinds.empty() ? 0 : c.kinds[i]});
    }
    EXPECT_EQ(PlanBuckets(gradients, c.limits), c.plan);
  }
}

}  // namespace
}  // namespace ddp::rt
