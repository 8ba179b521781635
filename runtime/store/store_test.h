// The contract of Store as a test that every implementation instantiates.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/store/store.h"

namespace ddp::rt::store {

using MakeStore = std::function<std::shared_ptr<Store>()>;

class StoreTest : public ::testing::TestWithParam<MakeStore> {
 protected:
  std::shared_ptr<Store> store_ = GetParam()();
  Deadline soon_ = Deadline::In(std::chrono::seconds(10), "the test");
};

TEST_P(StoreTest, KeepsBytes) {
  const std::string bytes("\0a\xff", 3);
  EXPECT_EQ(store_->TryGet("key"), std::nullopt);
  store_->Set("key", bytes);
  EXPECT_EQ(store_->TryGet("key"), bytes);
  EXPECT_EQ(store_->Get("key", soon_), bytes);
  store_->Set("key", "");
  EXPECT_EQ(store_->Get("key", soon_), "");
}

TEST_P(StoreTest, GetWaitsForTheKey) {
  std::thread writer([&] { store_->Set("late", "x"); });
  EXPECT_EQ(store_->Get("late", soon_), "x");
  writer.join();
}

TEST_P(StoreTest, GetGivesUpAtTheDeadlineAndSaysWhy) {
  try {
    store_->Get("never", Deadline::In(std::chrono::milliseconds(50), "rank 1 to join"));
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUnavailable);
    EXPECT_NE(std::string(e.what()).find("after 0.05 s waiting for rank 1 to join"),
              std::string::npos)
        << e.what();
  }
  // The connection is as good as before.
  store_->Set("after", "y");
  EXPECT_EQ(store_->Get("after", soon_), "y");
}

TEST_P(StoreTest, AddCounts) {
  EXPECT_EQ(store_->Add("n", 2), 2);
  EXPECT_EQ(store_->Add("n", -5), -3);
}

TEST_P(StoreTest, CompareSetWritesOnlyOverTheExpected) {
  EXPECT_EQ(store_->CompareSet("c", "", "first"), "first");
  EXPECT_EQ(store_->CompareSet("c", "", "second"), "first");
  EXPECT_EQ(store_->CompareSet("c", "first", "third"), "third");
  EXPECT_EQ(store_->TryGet("c"), "third");
}

TEST_P(StoreTest, DeleteTellsWhetherThereWasOne) {
  store_->Set("d", "1");
  EXPECT_TRUE(store_->Delete("d"));
  EXPECT_FALSE(store_->Delete("d"));
  EXPECT_EQ(store_->TryGet("d"), std::nullopt);
}

}  // namespace ddp::rt::store
