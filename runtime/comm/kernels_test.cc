#include "runtime/comm/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/comm/numbers_test.h"

namespace ddp::rt::comm {
namespace {

// Every instruction set against scalar code: the same bits.
TEST(Kernels, AllInstructionSetsGiveTheReferencesBits) {
  std::size_t variants = 0;
  const NamedReduce* const all = ReduceVariantsForTest(variants);
  for (std::size_t v = 0; v < variants; ++v) {
    for (const DataType type : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        for (const int world : {1, 2, 3, 5}) {
          for (const std::size_t count : {0, 1, 17, 1024, 5003}) {
            SCOPED_TRACE(std::string(all[v].instruction_set) + " " + Name(type) + " " + Name(op) +
                         " world " + std::to_string(world) + " count " + std::to_string(count));
            std::vector<std::vector<char>> data;
            std::vector<const void*> inputs;
            for (int r = 0; r < world; ++r) {
              data.emplace_back(count * SizeOf(type));
              Fill(type, r, data.back().data(), count);
            }
            for (const auto& each : data) {
              inputs.push_back(each.data());
            }
            // Into the last input (the result may be one of them), and elsewhere.
            std::vector<char> elsewhere(count * SizeOf(type));
            void* const outs[] = {data.back().data(), elsewhere.data()};
            for (const int out_count : {2, 1}) {
              Fill(type, world - 1, data.back().data(), count);
              all[v].function(type, op, inputs.data(), world, outs, out_count, count);
              ASSERT_EQ(data.back(), Reference(type, op, world, count));
            }
            ASSERT_EQ(elsewhere, data.back());
          }
        }
      }
    }
  }
}

TEST(Kernels, MaximumAndSumKeepNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float a[] = {1, nan, 3};
  const float b[] = {nan, 2, 4};
  const void* const inputs[] = {a, b};
  float out[3];
  Reduce(DataType::kF32, ReduceOp::kMax, inputs, 2, out, 3);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_EQ(out[2], 4);
}

TEST(Kernels, Bf16KeepsNanAndRoundsOverflowToInfinity) {
  const std::uint16_t nan = 0x7f81;
  const std::uint16_t largest = 0x7f7f;
  const std::uint16_t a[] = {nan, largest};
  const std::uint16_t b[] = {0, largest};
  const void* const inputs[] = {a, b};
  std::uint16_t out[2];
  Reduce(DataType::kBF16, ReduceOp::kSum, inputs, 2, out, 2);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(out[0])));
  EXPECT_TRUE(std::isinf(Bf16ToFloat(out[1])));
}

}  // namespace
}  // namespace ddp::rt::comm
