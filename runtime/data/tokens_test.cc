#include "runtime/data/tokens.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::data {
namespace {

using Bytes = std::vector<uint8_t>;

void Put(Bytes& bytes, uint32_t value, int width) {
  for (int i = 0; i < width; ++i) {
    bytes.push_back(static_cast<uint8_t>(value >> 8 * i));
  }
}

Bytes Raw(const std::vector<uint32_t>& tokens, int width) {
  Bytes bytes;
  for (const uint32_t token : tokens) {
    Put(bytes, token, width);
  }
  return bytes;
}

Bytes WithHeader(uint32_t magic, uint32_t version, uint32_t count, const Bytes& tokens) {
  Bytes bytes;
  for (const uint32_t number : {magic, version, count}) {
    Put(bytes, number, 4);
  }
  bytes.resize(1024);
  bytes.insert(bytes.end(), tokens.begin(), tokens.end());
  return bytes;
}

TokenDataset::Shard MakeShard(const std::vector<uint32_t>& tokens) {
  const auto bytes = std::make_shared<Bytes>(Raw(tokens, 2));
  return {"shard", ParseTokens("shard", *bytes, TokenType::kU16), bytes};
}

std::vector<int64_t> Values(const at::Tensor& tensor) {
  const auto* first = tensor.const_data_ptr<int64_t>();
  return {first, first + tensor.numel()};
}

template <typename F>
void ExpectDamaged(const F& f, const std::string& says) {
  try {
    f();
    ADD_FAILURE() << "accepted, wanted: " << says;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kData);
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
  }
}

TEST(ParseTokens, ReadsRawFilesAndHeaders) {
  const Bytes raw = Raw({1, 65535}, 2);
  EXPECT_EQ(ParseTokens("x", raw, TokenType::kU16).token(1), 65535);
  EXPECT_EQ(ParseTokens("x", Raw({1, 70000}, 4), TokenType::kU32).token(1), 70000);
  const Bytes gpt2 = WithHeader(20240520, 1, 2, raw);
  EXPECT_EQ(ParseTokens("x", gpt2, TokenType::kU32).size(), 2);
  const Bytes llama = WithHeader(20240801, 7, 1, Raw({128'000}, 4));
  EXPECT_EQ(ParseTokens("x", llama, TokenType::kU16).token(0), 128'000);
}

TEST(ParseTokens, SaysWhatIsWrong) {
  const auto parse = [](const Bytes& bytes) {
    return [&bytes] { ParseTokens("x", bytes, TokenType::kU16); };
  };
  ExpectDamaged(parse({}), "found 0 bytes and no header");
  ExpectDamaged(parse({1, 2, 3}), "no whole number of tokens of 2 bytes (data.tokenType)");
  ExpectDamaged(parse(WithHeader(20240520, 2, 0, {})), "version 2, expected 1");
  ExpectDamaged(parse(WithHeader(20240520, 1, 3, {1, 0})),
                "announces 3 tokens of 2 bytes, but 2 bytes follow: copy the file again");
}

std::vector<TokenDataset::Shard> Two() {
  std::vector<TokenDataset::Shard> shards;
  shards.push_back(MakeShard({0, 1, 2, 3, 4}));
  shards.push_back(MakeShard({5, 6, 7, 8}));
  return shards;
}

TEST(TokenDataset, CutsWindowsWithinShards) {
  // 5 tokens: two windows of 2 and the last label; 4 tokens: one window.
  const TokenDataset set(Two(), 2, 9);
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.labels_per_sample(), 2);
  EXPECT_TRUE(set.shape().tokens());
  const std::vector<int64_t> samples = {2, 1};
  const Batch batch = set.Make(samples, nullptr);
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(Values(batch.inputs), (std::vector<int64_t>{5, 6, 2, 3}));
  EXPECT_EQ(Values(batch.labels), (std::vector<int64_t>{6, 7, 3, 4}));
}

TEST(TokenDataset, SaysWhatIsWrong) {
  ExpectDamaged([] { TokenDataset(Two(), 5, 9); },
                "has 5 tokens, but a sample needs 6 (model.context, and one more)");
  ExpectDamaged([] { TokenDataset(Two(), 2, 8); },
                "token 3 is 8, but there are only 8 (model.vocabulary)");
}

TEST(MapShards, MapsFilesInOrder) {
  const TempFolder folder;
  const auto write = [&](const char* name, const Bytes& bytes) {
    std::ofstream(folder.path() / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  write("train_2.bin", Raw({2, 2}, 2));
  write("train_1.bin", Raw({1, 1}, 2));
  write("val.bin", Raw({3, 3}, 2));
  const auto shards = MapShards(folder.path(), "train", TokenType::kU16);
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shards[0].view.token(0), 1);
  EXPECT_EQ(shards[1].view.token(0), 2);
  try {
    MapShards(folder.path(), "test", TokenType::kU16);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kNoInput);
  }
}

}  // namespace
}  // namespace ddp::rt::data
