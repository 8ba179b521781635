#include "operator/api/rank_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "operator/api/text.h"

namespace ddp::api {
namespace {

TEST(RankSet, PrintsIntervals) {
  RankSet set;
  EXPECT_EQ(set.ToString(), "");
  for (const int rank : {5, 0, 2, 1, 3, 5}) {
    set.Add(rank);
  }
  EXPECT_EQ(set.ToString(), "0-3,5");
  set.Add(4);
  EXPECT_EQ(set.ToString(), "0-5");
  EXPECT_EQ(set.size(), 6);
}

TEST(RankSet, EqualsASetOfNumbersWhateverIsAdded) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  RankSet set;
  std::set<int> model;
  for (int i = 0; i < 500; ++i) {
    const int rank = std::uniform_int_distribution<int>(0, 300)(random);
    set.Add(rank);
    model.insert(rank);
    ASSERT_EQ(set.size(), static_cast<int>(model.size()));
  }
  for (int rank = -1; rank <= 301; ++rank) {
    EXPECT_EQ(set.Contains(rank), model.contains(rank)) << rank;
  }
  EXPECT_EQ(*RankSet::Parse(set.ToString()), set);
}

TEST(RankSet, ParsesOnlyAscendingIntervals) {
  EXPECT_EQ(RankSet::Parse("0-3,5")->ToString(), "0-3,5");
  EXPECT_EQ(RankSet::Parse("0-3,4")->ToString(), "0-4");
  EXPECT_TRUE(RankSet::Parse("")->empty());
  for (const char* bad : {"x", "3-1", "1,1", "5,3", "1-", "-1", "1,", "1 ,2", "99999999999"}) {
    EXPECT_FALSE(RankSet::Parse(bad)) << bad;
  }
}

TEST(Text, IsCutBetweenCharacters) {
  EXPECT_EQ(Cut("abc", 5), "abc");
  EXPECT_EQ(Cut("aé", 2), "a");
  EXPECT_EQ(Tail("éa", 2), "a");
  EXPECT_EQ(Tail("abc", 2), "bc");
}

TEST(Text, EditDistanceHasALimit) {
  EXPECT_EQ(EditDistance("replica", "replicas", 3), 1U);
  EXPECT_EQ(EditDistance("kitten", "sitting", 5), 3U);
  EXPECT_EQ(EditDistance("a", "abcdef", 2), 3U);
}

}  // namespace
}  // namespace ddp::api
