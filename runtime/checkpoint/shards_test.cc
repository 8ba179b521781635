#include "runtime/checkpoint/shards.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/pieces.h"
#include "runtime/store/hash_store.h"

namespace ddp::rt::checkpoint {
namespace {

namespace fs = std::filesystem;

const std::vector<float> kState = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
constexpr std::chrono::milliseconds kTimeout(200);

// What rank `rank` of `world` saves: a model of 12 elements, and its part of the state.
Contents Part(int64_t step, int rank, int world) {
  const size_t each = kState.size() / static_cast<size_t>(world);
  const size_t begin = each * static_cast<size_t>(rank);
  Contents contents;
  contents.position.step = step;
  contents.position.world_size = world;
  contents.model = {{.name = "w",
                     .type = DType::kF32,
                     .shape = {3, 4},
                     .elements = std::as_bytes(std::span(kState))}};
  contents.optimizer = {
      {.name = "average.w[" + std::to_string(begin) + ":" + std::to_string(begin + each) + "]",
       .type = DType::kF32,
       .shape = {static_cast<int64_t>(each)},
       .elements = std::as_bytes(std::span(kState).subspan(begin, each))}};
  return contents;
}

class Shards : public testing::Test {
 protected:
  // All ranks save at once, as they do.
  void Save(int64_t step, int world) {
    std::vector<std::thread> others;
    for (int rank = 1; rank < world; ++rank) {
      others.emplace_back([=, this] {
        ShardExchange exchange(store_, rank, world, std::chrono::seconds(10));
        CheckpointFolder(temp_.path(), 2).Save(Part(step, rank, world), &exchange);
      });
    }
    ShardExchange exchange(store_, 0, world, std::chrono::seconds(10));
    path_ = CheckpointFolder(temp_.path(), 2).Save(Part(step, 0, world), &exchange);
    for (std::thread& other : others) {
      other.join();
    }
  }

  const TempFolder temp_;
  store::HashStore store_;
  fs::path path_;
};

TEST_F(Shards, EachRankGetsItsOwnBack) {
  Save(5, 3);
  EXPECT_TRUE(fs::exists(path_ / "optimizer-2-of-3.safetensors"));
  const auto zero = CheckpointFolder(temp_.path(), 2).LoadNewest({.rank = 0, .world_size = 3});
  ASSERT_TRUE(zero);
  EXPECT_EQ(zero->shards, 3);
  ASSERT_EQ(zero->optimizer.size(), 1U);
  EXPECT_EQ(zero->optimizer[0].name, "average.w[0:4]");
  const Loaded two = LoadOptimizer(path_, {.rank = 2, .world_size = 3});
  ASSERT_EQ(two.optimizer.size(), 1U);
  EXPECT_EQ(two.optimizer[0].name, "average.w[8:12]");
}

TEST_F(Shards, AnotherNumberOfRanksGetsAll) {
  Save(5, 3);
  for (const int world : {1, 2, 4}) {
    const Loaded loaded = LoadOptimizer(path_, {.rank = 0, .world_size = world});
    EXPECT_EQ(loaded.optimizer.size(), 3U);
    const Joined joined = JoinPieces(loaded.optimizer, LoadCheckpoint(path_).model);
    ASSERT_EQ(joined.tensors.size(), 1U);
    EXPECT_EQ(joined.tensors[0].shape, (std::vector<int64_t>{3, 4}));
    EXPECT_TRUE(std::ranges::equal(joined.tensors[0].elements, std::as_bytes(std::span(kState))));
  }
}

TEST_F(Shards, AnotherRanksDamageIsFoundByRankZero) {
  Save(5, 2);
  Save(6, 2);
  std::ofstream(path_ / "optimizer-1-of-2.safetensors") << "damaged";
  const auto loaded = CheckpointFolder(temp_.path(), 2).LoadNewest({.rank = 0, .world_size = 2});
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->position.step, 5);
  const auto all = CheckpointFolder(temp_.path(), 2).List();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_NE(all[0].problem.find("optimizer-1-of-2.safetensors has 7 bytes"), std::string::npos)
      << all[0].problem;
  EXPECT_EQ(all[1].problem, "");
}

TEST_F(Shards, WithoutAllThereIsNoCheckpoint) {
  ShardExchange exchange(store_, 0, 2, kTimeout);
  try {
    CheckpointFolder(temp_.path(), 2).Save(Part(5, 0, 2), &exchange);
    ADD_FAILURE() << "rank 1 has said nothing";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("rank 1 to save its part of the checkpoint"),
              std::string::npos)
        << e.what();
  }
  EXPECT_FALSE(CheckpointFolder(temp_.path(), 2).LoadNewest());
}

TEST_F(Shards, AFailureOfAnotherRankIsNamed) {
  ShardExchange other(store_, 1, 2, kTimeout);
  other.Begin();
  other.AnnounceFailure("can't write x: No space left on device");
  ShardExchange exchange(store_, 0, 2, kTimeout);
  try {
    CheckpointFolder(temp_.path(), 2).Save(Part(5, 0, 2), &exchange);
    ADD_FAILURE() << "rank 1 has failed";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("rank 1: can't write x: No space left"), std::string::npos)
        << e.what();
  }
}

TEST_F(Shards, ARankThatIsLostIsNotWaitedFor) {
  ShardExchange exchange(store_, 0, 2, std::chrono::minutes(5));
  for (int64_t step = 1; step <= 2; ++step) {  // while it waits; before it does
    std::thread training([&] { exchange.Abandon("rank 1 is gone"); });
    try {
      CheckpointFolder(temp_.path(), 2).Save(Part(step, 0, 2), &exchange);
      ADD_FAILURE() << "rank 1 has said nothing";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("rank 1 is gone"), std::string::npos) << e.what();
    }
    training.join();
  }
  EXPECT_FALSE(CheckpointFolder(temp_.path(), 2).LoadNewest());
}

TEST(ShardText, RoundTripsAndRefusesOthers) {
  const FileEntry entry{
      .name = "optimizer-1-of-2.safetensors", .bytes = 123, .xxh3 = "0123456789abcdef"};
  EXPECT_EQ(ParseShard(1, FormatShard(entry)), entry);
  for (const char* text : {"", "1", "1 0123456789abcde name", "x 0123456789abcdef name",
                           "1 0123456789abcdef", "1 0123456789abcdef "}) {
    EXPECT_THROW(ParseShard(1, text), Error) << text;
  }
}

}  // namespace
}  // namespace ddp::rt::checkpoint
