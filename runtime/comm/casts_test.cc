#include "runtime/comm/casts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/comm/kernels.h"
#include "runtime/comm/numbers_test.h"

namespace ddp::rt::comm {
namespace {

constexpr DataType kSixteenBits[] = {DataType::kBF16, DataType::kF16};

float Widened(DataType type, std::uint16_t x) {
  return type == DataType::kBF16 ? Bf16ToFloat(x)
                                 : static_cast<float>(__builtin_bit_cast(_Float16, x));
}

class Casts : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > BestInstructionSet()) {
      GTEST_SKIP() << "this CPU has no " << Name(GetParam());
    }
  }
  const CastKernels& kernels() const { return CastsForTest(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Sets, Casts,
                         ::testing::Values(InstructionSet::kBase, InstructionSet::kAvx2,
                                           InstructionSet::kAvx512),
                         [](const auto& tested) { return std::string(Name(tested.param)); });

TEST_P(Casts, EveryPatternOf16BitsWidensAndComesBack) {
  std::vector<std::uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  for (const DataType type : kSixteenBits) {
    std::vector<float> wide(all.size());
    std::vector<std::uint16_t> back(all.size());
    kernels().widen(type, all.data(), wide.data(), all.size());
    kernels().narrow(type, wide.data(), back.data(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float expected = Widened(type, all[i]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(Widened(type, back[i]))) << Name(type) << i;
      } else {
        ASSERT_EQ(std::memcmp(&wide[i], &expected, sizeof(float)), 0) << Name(type) << i;
        ASSERT_EQ(back[i], all[i]) << Name(type);
      }
    }
  }
}

TEST_P(Casts, NarrowingRoundsToTheNearestAndTiesToEven) {
  // Around every value: exactly half way to the next, and a little to either side of it.
  for (const DataType type : kSixteenBits) {
    std::vector<float> in;
    std::vector<std::uint16_t> expected;
    const int finite = type == DataType::kBF16 ? 0x7f80 : 0x7c00;
    for (int x = 0; x + 1 < finite; ++x) {
      const auto below = static_cast<std::uint16_t>(x);
      const auto above = static_cast<std::uint16_t>(x + 1);
      const double middle = (static_cast<double>(Widened(type, below)) + Widened(type, above)) / 2;
      const auto half = static_cast<float>(middle);
      if (half != middle) {
        continue;  // between float's own subnormals
      }
      in.insert(in.end(), {half, std::nextafter(half, 0.0F), std::nextafter(half, INFINITY)});
      expected.insert(expected.end(), {x % 2 == 0 ? below : above, below, above});
    }
    in.push_back(std::numeric_limits<float>::max());
    expected.push_back(static_cast<std::uint16_t>(finite));  // infinity
    std::vector<std::uint16_t> out(in.size());
    kernels().narrow(type, in.data(), out.data(), in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(out[i], expected[i]) << Name(type) << " of " << in[i];
    }
  }
}

TEST_P(Casts, DividingASumGivesTheReductionsMean) {
  constexpr std::size_t kCount = 1003;
  for (const DataType type : {DataType::kF32, DataType::kF64, DataType::kI32, DataType::kI64}) {
    std::vector<std::vector<char>> inputs(3, std::vector<char>(kCount * SizeOf(type)));
    std::vector<const void*> pointers;
    for (int r = 0; r < 3; ++r) {
      Fill(type, r, inputs[static_cast<std::size_t>(r)].data(), kCount);
      pointers.push_back(inputs[static_cast<std::size_t>(r)].data());
    }
    std::vector<char> sum(kCount * SizeOf(type));
    Reduce(type, ReduceOp::kSum, pointers.data(), 3, sum.data(), kCount);
    kernels().divide(type, sum.data(), 3, kCount);
    EXPECT_EQ(sum, Reference(type, ReduceOp::kMean, 3, kCount)) << Name(type);
  }
}

}  // namespace
}  // namespace ddp::rt::comm
