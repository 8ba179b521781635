// One body for every Store, here with HashStore and PrefixStore; tcp_store_test.cc has TcpStore.
#include "runtime/store/store_test.h"

#include "runtime/store/hash_store.h"
#include "runtime/store/prefix_store.h"

namespace ddp::rt::store {
namespace {

INSTANTIATE_TEST_SUITE_P(Hash, StoreTest,
                         ::testing::Values([] { return std::make_shared<HashStore>(); }));
INSTANTIATE_TEST_SUITE_P(Prefix, StoreTest, ::testing::Values([] {
                           return std::make_shared<PrefixStore>("job/1/",
                                                                std::make_shared<HashStore>());
                         }));

TEST(PrefixStore, SeparatesUsers) {
  const auto shared = std::make_shared<HashStore>();
  PrefixStore one("1/", shared);
  PrefixStore two("2/", shared);
  one.Set("key", "one");
  EXPECT_EQ(two.TryGet("key"), std::nullopt);
  EXPECT_EQ(shared->TryGet("1/key"), "one");
}

TEST(Exchange, ReturnsEveryRanksValueInOrder) {
  HashStore store;
  const auto deadline = Deadline::In(std::chrono::seconds(10), "all ranks");
  std::thread other([&] { Exchange(store, "k", 1, 2, "b", deadline); });
  EXPECT_EQ(Exchange(store, "k", 0, 2, "a", deadline), (std::vector<std::string>{"a", "b"}));
  other.join();
}

TEST(Exchange, NamesWhoHasNotCome) {
  HashStore store;
  store.Set("k/2", "c");
  try {
    Exchange(store, "k", 0, 4, "a", Deadline::In(std::chrono::milliseconds(20), "the vote"));
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUnavailable);
    EXPECT_STREQ(e.what(), "gave up after 0.02 s waiting for the vote: rank(s) 1, 3 have not come");
  }
}

}  // namespace
}  // namespace ddp::rt::store
