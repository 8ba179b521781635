// Gradients that travel in 16 bits.
#include <gtest/gtest.h>

#include "runtime/ddp/replicas_test.h"

namespace ddp::rt {
namespace {

using comm::TransportKind;

struct Case {
  Compression compression;
  bool scatter;
  double tolerance;  // relative: of the type's mantissa
};

class CompressionTest : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Types, CompressionTest,
                         ::testing::Values(Case{Compression::kBF16, false, 1.0 / 128},
                                           Case{Compression::kF16, false, 1.0 / 1024},
                                           Case{Compression::kBF16, true, 1.0 / 128}),
                         [](const auto& tested) {
                           return std::string(tested.param.compression == Compression::kF16
                                                  ? "f16"
                                                  : "bf16") +
                                  (tested.param.scatter ? "_scattered" : "");
                         });

TEST_P(CompressionTest, TheMeanIsRightToThePrecisionOfTheType) {
  const at::Tensor batch = Inputs(8, 1);
  const TinyModel alone(7);
  alone.Loss(batch).backward();
  RunReplicas(2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store& s) {
    const TinyModel model(7);
    DataParallelOptions options = SmallBuckets();
    options.compression = GetParam().compression;
    options.scatter_gradients = GetParam().scatter;
    DataParallel replicas(model.parameters(), {}, group, s, options);
    for (int step = 0; step < 3; ++step) {  // the buckets move after the first
      replicas.ZeroGrad();
      model.Loss(Share(batch, rank, 2)).backward();
      for (const Gradient& gradient : replicas.layout().gradients()) {
        const at::Tensor flat = replicas.buckets()[gradient.bucket];
        const at::Tensor part = replicas.gradient_parts()[gradient.bucket];
        const std::int64_t begin = static_cast<const float*>(part.const_data_ptr()) -
                                   static_cast<const float*>(flat.const_data_ptr());
        const std::int64_t from = std::max(begin, gradient.offset);
        const std::int64_t to =
            std::min(begin + part.numel(), gradient.offset + gradient.place.numel());
        if (from >= to) {
          continue;
        }
        const auto index =
            static_cast<std::size_t>(&gradient - replicas.layout().gradients().data());
        const at::Tensor expected =
            alone.tensor(index).grad().reshape({-1}).narrow(0, from - gradient.offset, to - from);
        const at::Tensor got = flat.narrow(0, from, to - from);
        // Of the largest element: where the ranks' gradients cancel, their rounding does not.
        const double largest = alone.tensor(index).grad().abs().max().item<double>();
        EXPECT_TRUE(at::allclose(got, expected, 0, GetParam().tolerance * largest));
        EXPECT_FALSE(at::equal(got, expected));  // it did go through 16 bits
      }
    }
  });
}

// Each rank's gradient alone, or their sum undivided, would overflow float16; the mean does not.
TEST(Compression, DividesBeforeItCasts) {
  RunReplicas(4, TransportKind::kShm, [&](int, comm::ProcessGroup& group, store::Store& store) {
    const at::Tensor w = at::ones({100}).requires_grad_(true);
    DataParallelOptions options = SmallBuckets();
    options.compression = Compression::kF16;
    DataParallel replicas({{"w", w}}, {}, group, store, options);
    replicas.ZeroGrad();
    (w * 40000.0).sum().backward();
    EXPECT_TRUE(at::allclose(w.grad(), at::full({100}, 40000.0F)));
  });
}

}  // namespace
}  // namespace ddp::rt
