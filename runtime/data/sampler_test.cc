#include "runtime/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace ddp::rt::data {
namespace {

uint64_t Fnv1a(std::span<const int64_t> indices) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const int64_t index : indices) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ (static_cast<uint64_t>(index) >> shift & 0xff)) * 0x100000001b3;
    }
  }
  return hash;
}

std::string FirstFive(std::span<const int64_t> indices) {
  std::string text;
  for (const int64_t index : indices.first(std::min<size_t>(5, indices.size()))) {
    text += (text.empty() ? "" : ",") + std::to_string(index);
  }
  return text.empty() ? "-" : text;
}

// Made by tests/data/sampler_vectors.py with torch 2.11.0.
TEST(DistributedSampler, YieldsWhatPythonYields) {
  std::ifstream file(DDP_TEST_DATA_DIR "/sampler_vectors.tsv");
  ASSERT_TRUE(file);
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    SamplerOptions options;
    int64_t epoch = 0;
    int64_t count = 0;
    std::string first;
    std::string hash;
    fields >> options.samples >> options.ranks >> options.rank >> options.seed >> epoch >>
        options.shuffle >> options.drop_last >> count >> first >> hash;
    ASSERT_TRUE(fields) << line;
    DistributedSampler sampler(options);
    sampler.SetEpoch(epoch);
    EXPECT_EQ(sampler.size(), count) << line;
    EXPECT_EQ(FirstFive(sampler.indices()), first) << line;
    EXPECT_EQ(Fnv1a(sampler.indices()), std::stoull(hash, nullptr, 16)) << line;
    ++lines;
  }
  EXPECT_EQ(lines, 200);
}

TEST(DistributedSampler, EpochsDiffer) {
  DistributedSampler sampler({.samples = 100, .ranks = 2});
  std::set<uint64_t> orders;
  for (int epoch = 0; epoch < 20; ++epoch) {
    sampler.SetEpoch(epoch);
    orders.insert(Fnv1a(sampler.indices()));
  }
  EXPECT_EQ(orders.size(), 20U);
}

TEST(EvaluationSlice, CountsEachSampleOnce) {
  for (const int64_t samples : {1, 2, 5, 1797, 10000}) {
    for (const int ranks : {1, 2, 3, 4, 7, 64}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Slice slice = EvaluationSlice(samples, ranks, rank);
        EXPECT_EQ(slice.begin, next);
        EXPECT_LE(slice.end - slice.begin, samples / ranks + 1);
        next = slice.end;
      }
      EXPECT_EQ(next, samples);
    }
  }
}

}  // namespace
}  // namespace ddp::rt::data
