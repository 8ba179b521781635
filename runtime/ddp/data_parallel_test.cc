#include "runtime/ddp/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "runtime/base/error.h"
#include "runtime/ddp/module.h"
#include "runtime/ddp/replicas_test.h"

namespace ddp::rt {
namespace {

using comm::TransportKind;
using ::testing::HasSubstr;
using EventKind = DataParallel::Event::Kind;
namespace F = torch::nn::functional;

constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kSide = 8;

// A convolution and three linear layers, registered in the order of use.
struct Net : torch::nn::Module {
  explicit Net(std::int64_t hidden = 32)
      : conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)))),
        first(register_module("first", torch::nn::Linear(4 * 6 * 6, hidden))),
        second(register_module("second", torch::nn::Linear(hidden, hidden))),
        last(register_module("last", torch::nn::Linear(hidden, kClasses))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor image = F::relu(conv(x)).flatten(1);
    return last(F::relu(second(F::relu(first(image)))));
  }

  torch::nn::Conv2d conv;
  torch::nn::Linear first, second, last;
};

at::Tensor LossOf(const at::Tensor& output, const at::Tensor& labels) {
  return F::cross_entropy(output, labels);
}

struct Batch {
  at::Tensor images;
  at::Tensor labels;
  // The share of one of `parts` ranks.
  Batch Share(int rank, int parts) const {
    const std::int64_t n = images.size(0) / parts;
    return {images.narrow(0, rank * n, n), labels.narrow(0, rank * n, n)};
  }
};

std::vector<Batch> MakeBatches(int count, std::int64_t size) {
  torch::manual_seed(5);
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) {
    batches.push_back(
        {torch::randn({size, 1, kSide, kSide}), torch::randint(kClasses, {size}, torch::kLong)});
  }
  return batches;
}

std::shared_ptr<Net> MakeNet(std::uint64_t seed) {
  torch::manual_seed(seed);
  return std::make_shared<Net>();
}

torch::optim::SGD MakeOptimizer(const torch::nn::Module& net) {
  return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

double LargestDifference(const torch::nn::Module& a, const torch::nn::Module& b) {
  double largest = 0;
  const auto theirs = b.parameters();
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    largest = std::max(largest, (a.parameters()[i] - theirs[i]).abs().max().item<double>());
  }
  return largest;
}

class DataParallelTest : public ::testing::TestWithParam<TransportKind> {};
INSTANTIATE_TEST_SUITE_P(Transports, DataParallelTest,
                         ::testing::Values(TransportKind::kTcp, TransportKind::kShm),
                         [](const auto& tested) {
                           return tested.param == TransportKind::kTcp ? "tcp" : "shm";
                         });

// The point of it all: two ranks with half the batch each train what one process trains.
TEST_P(DataParallelTest, HalfBatchesOnTwoRanksTrainAsOneProcess) {
  constexpr int kSteps = 50;
  const std::vector<Batch> batches = MakeBatches(kSteps, 32);
  const auto alone = MakeNet(1);
  torch::optim::SGD optimizer = MakeOptimizer(*alone);
  for (const Batch& batch : batches) {
    optimizer.zero_grad();
    LossOf(alone->forward(batch.images), batch.labels).backward();
    optimizer.step();
  }
  // Rank 1 begins with other weights: it must get rank 0's.
  const std::vector<std::shared_ptr<Net>> nets = {MakeNet(1), MakeNet(2)};
  RunReplicas(2, GetParam(), [&](int rank, comm::ProcessGroup& group, store::Store& store) {
    Net& net = *nets[static_cast<std::size_t>(rank)];
    DataParallel replicas(NamedParameters(net), {}, group, store, SmallBuckets());
    torch::optim::SGD mine = MakeOptimizer(net);
    replicas.VerifyReplicas();
    for (const Batch& batch : batches) {
      const Batch share = batch.Share(rank, 2);
      replicas.ZeroGrad();
      LossOf(net.forward(share.images), share.labels).backward();
      replicas.EnsureReduced();
      mine.step();
      replicas.VerifyReplicas();  // bit-equal at every step
    }
    EXPECT_EQ(replicas.steps(), kSteps);
  });
  EXPECT_LE(LargestDifference(*alone, *nets[0]), 1e-5);
  EXPECT_EQ(LargestDifference(*nets[0], *nets[1]), 0);
}

TEST_P(DataParallelTest, AccumulationWithNoSyncEqualsOneLargeBatch) {
  const Batch batch = MakeBatches(1, 32)[0];
  const auto alone = MakeNet(1);
  LossOf(alone->forward(batch.images), batch.labels).backward();
  const std::vector<std::shared_ptr<Net>> nets = {MakeNet(1), MakeNet(1)};
  RunReplicas(2, GetParam(), [&](int rank, comm::ProcessGroup& group, store::Store& store) {
    Net& net = *nets[static_cast<std::size_t>(rank)];
    DataParallel replicas(NamedParameters(net), {}, group, store, SmallBuckets());
    const Batch share = batch.Share(rank, 2);
    replicas.ZeroGrad();
    const std::uint64_t works = group.stats().works;
    {
      const DataParallel::NoSync no_sync(replicas);
      const Batch half = share.Share(0, 2);
      (LossOf(net.forward(half.images), half.labels) / 2).backward();
    }
    EXPECT_EQ(group.stats().works, works);  // nothing was sent
    EXPECT_THROW(replicas.EnsureReduced(), Error);
    const Batch half = share.Share(1, 2);
    (LossOf(net.forward(half.images), half.labels) / 2).backward();
    replicas.EnsureReduced();
    for (std::size_t i = 0; i < net.parameters().size(); ++i) {
      EXPECT_LE(
          (net.parameters()[i].grad() - alone->parameters()[i].grad()).abs().max().item<float>(),
          1e-6);
    }
  });
}

TEST_P(DataParallelTest, GradientsStayInTheBuckets) {
  const Batch batch = MakeBatches(1, 8)[0];
  const std::vector<std::shared_ptr<Net>> nets = {MakeNet(1), MakeNet(1)};
  RunReplicas(2, GetParam(), [&](int rank, comm::ProcessGroup& group, store::Store& store) {
    Net& net = *nets[static_cast<std::size_t>(rank)];
    DataParallel replicas(NamedParameters(net), {}, group, store, SmallBuckets());
    torch::optim::SGD optimizer = MakeOptimizer(net);
    const auto in_buckets = [&] {
      for (const at::Tensor& parameter : net.parameters()) {
        const auto* const grad = static_cast<const char*>(parameter.grad().data_ptr());
        bool inside = false;
        for (const at::Tensor& flat : replicas.buckets()) {
          const auto* const begin = static_cast<const char*>(flat.data_ptr());
          inside |= grad >= begin && grad < begin + flat.nbytes();
        }
        EXPECT_TRUE(inside);
      }
    };
    std::vector<at::Tensor> first;
    for (int step = 0; step < 3; ++step) {
      // The second time the way of an unsuspecting user: gradients set to nothing.
      if (step == 1) {
        optimizer.zero_grad();
      } else {
        replicas.ZeroGrad();
      }
      const Batch share = batch.Share(rank, 2);
      LossOf(net.forward(share.images), share.labels).backward();
      in_buckets();
      const auto parameters = net.parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        if (step == 0) {
          first.push_back(parameters[i].grad().clone());
        }
        EXPECT_TRUE(parameters[i].grad().equal(first[i])) << "step " << step << " parameter " << i;
      }
    }
  });
}

// Buckets go out while backward still runs: read off the order of events, not off a clock.
TEST_P(DataParallelTest, BucketsAreLaunchedBeforeBackwardEnds) {
  const Batch batch = MakeBatches(1, 8)[0];
  const std::vector<std::shared_ptr<Net>> nets = {MakeNet(1), MakeNet(1)};
  RunReplicas(2, GetParam(), [&](int rank, comm::ProcessGroup& group, store::Store& store) {
    Net& net = *nets[static_cast<std::size_t>(rank)];
    DataParallel replicas(NamedParameters(net), {}, group, store, SmallBuckets());
    for (int step = 0; step < 2; ++step) {
      replicas.ZeroGrad();
      LossOf(net.forward(batch.images), batch.labels).backward();
      const auto& trace = replicas.TraceForTest();
      const auto position = [&](EventKind kind) {
        return std::find_if(trace.begin(), trace.end(), [&](auto& e) { return e.kind == kind; });
      };
      const auto last_gradient = std::find_if(trace.rbegin(), trace.rend(), [](auto& e) {
                                   return e.kind == EventKind::kGradientReady;
                                 }).base();
      EXPECT_GE(replicas.buckets().size(), 3u);
      EXPECT_LT(position(EventKind::kBucketLaunched), last_gradient);
      EXPECT_LT(last_gradient, position(EventKind::kBackwardEnded));
    }
  });
}

// Registered in an order that has nothing to do with the order of use.
struct Shuffled : torch::nn::Module {
  Shuffled() {
    for (const int i : {2, 0, 3, 1}) {
      layers[static_cast<std::size_t>(i)] =
          register_module("layer" + std::to_string(i), torch::nn::Linear(16, 16));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& layer : layers) {
      x = F::relu(layer(x));
    }
    return x;
  }
  std::array<torch::nn::Linear, 4> layers{nullptr, nullptr, nullptr, nullptr};
};

TEST_P(DataParallelTest, StepTwoHasTheBucketsInTheOrderOfBackward) {
  torch::manual_seed(3);
  const std::vector<std::shared_ptr<Shuffled>> nets = {std::make_shared<Shuffled>(),
                                                       std::make_shared<Shuffled>()};
  const at::Tensor x = torch::randn({4, 16});
  RunReplicas(2, GetParam(), [&](int rank, comm::ProcessGroup& group, store::Store& store) {
    Shuffled& net = *nets[static_cast<std::size_t>(rank)];
    DataParallelOptions options = SmallBuckets();
    options.first_bucket_bytes = options.bucket_bytes = options.last_bucket_bytes = 1100;
    DataParallel replicas(NamedParameters(net), {}, group, store, options);
    // How many buckets were launched right after another one: they had waited for it.
    const auto waited = [&] {
      int count = 0;
      const auto& trace = replicas.TraceForTest();
      for (std::size_t i = 1; i < trace.size(); ++i) {
        count += trace[i].kind == EventKind::kBucketLaunched &&
                 trace[i - 1].kind == EventKind::kBucketLaunched;
      }
      return count;
    };
    replicas.ZeroGrad();
    net.forward(x).sum().backward();
    EXPECT_GT(waited(), 0);
    replicas.ZeroGrad();
    net.forward(x).sum().backward();
    EXPECT_EQ(waited(), 0);
  });
}

// The error that other engines turn into a hang.
TEST_P(DataParallelTest, AParameterWithoutGradientIsNamedOnAllRanks) {
  const Batch batch = MakeBatches(1, 8)[0];
  const std::vector<std::shared_ptr<Net>> nets = {MakeNet(1), MakeNet(1)};
  const auto store = std::make_shared<store::HashStore>();
  comm::RunRanks(2, [&](int rank) {
    Net& net = *nets[static_cast<std::size_t>(rank)];
    const auto group = CreateProcessGroup(*store, comm::TestOptions(rank, 2, GetParam()));
    DataParallel replicas(NamedParameters(net), {}, *group, *store, SmallBuckets());
    const auto step = [&](bool skip_second) {
      replicas.ZeroGrad();
      const at::Tensor hidden = F::relu(net.first(F::relu(net.conv(batch.images)).flatten(1)));
      LossOf(net.last(skip_second ? hidden : F::relu(net.second(hidden))), batch.labels).backward();
    };
    step(false);
    try {
      step(rank == 0);
      ADD_FAILURE() << "must throw";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), rank == 0 ? ExitCode::kSoftware : ExitCode::kUnavailable);
      EXPECT_THAT(e.what(), HasSubstr("rank 0: step 2: backward gave no gradient to 2 of 8 "
                                      "parameters ('second.weight', 'second.bias')"));
    }
    EXPECT_THROW(replicas.EnsureReduced(), Error);
  });
}

TEST_P(DataParallelTest, BuffersComeFromRankZero) {
  torch::manual_seed(1);
  const std::vector<torch::nn::BatchNorm1d> norms = {torch::nn::BatchNorm1d(4),
                                                     torch::nn::BatchNorm1d(4)};
  norms[0]->running_mean.fill_(3);
  RunReplicas(2, GetParam(), [&](int rank, comm::ProcessGroup& group, store::Store& store) {
    const torch::nn::BatchNorm1d& norm = norms[static_cast<std::size_t>(rank)];
    DataParallel replicas(NamedParameters(*norm), NamedBuffers(*norm), group, store, {});
    EXPECT_EQ(norm->running_mean[0].item<float>(), 3);
    norm->running_mean.fill_(5 + rank);
    replicas.BroadcastBuffers();
    EXPECT_EQ(norm->running_mean[3].item<float>(), 5);
  });
}

TEST(DataParallelLayout, ADifferentModelIsRefusedAndTheFirstDifferenceNamed) {
  const auto store = std::make_shared<store::HashStore>();
  comm::RunRanks(3, [&](int rank) {
    const auto group = CreateProcessGroup(*store, comm::TestOptions(rank, 3, TransportKind::kTcp));
    const at::Tensor a = torch::ones({2, 3}, torch::requires_grad());
    const at::Tensor b = torch::ones({2, 3}, torch::requires_grad());
    // Rank 2 has the two, equal in shape, the other way round.
    std::vector<NamedTensor> parameters = {{"same", a}, {"left", a}, {"right", b}};
    if (rank == 2) {
      std::swap(parameters[1], parameters[2]);
    }
    try {
      DataParallel(parameters, {}, *group, *store, {});
      ADD_FAILURE() << "must throw";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kConfig);
      EXPECT_STREQ(e.what(),
                   "rank 2 has another model than rank 0: tensor 1 is 'left Float [2, 3] strides "
                   "[3, 1]' there and 'right Float [2, 3] strides [3, 1]' here");
    }
    group->Shutdown(std::chrono::seconds(5));
  });
}

TEST(DataParallelHash, SeesASingleBit) {
  RunReplicas(
      2, TransportKind::kShm, [&](int rank, comm::ProcessGroup& group, store::Store& store) {
        const at::Tensor w = torch::ones({100}, torch::requires_grad());
        DataParallel replicas({{"w", w}}, {}, group, store, {});
        replicas.VerifyReplicas();
        if (rank == 1) {
          const at::NoGradGuard no_grad;
          w[50].add_(1e-7);
        }
        try {
          replicas.VerifyReplicas();
          ADD_FAILURE() << "must throw";
        } catch (const Error& e) {
          EXPECT_STREQ(e.what(), "after step 0 the parameters of rank(s) 1 differ from rank 0's");
        }
      });
}

TEST(DataParallelAlone, AWorldOfOneTrainsToo) {
  const Batch batch = MakeBatches(1, 8)[0];
  const auto net = MakeNet(1);
  RunReplicas(1, TransportKind::kAuto, [&](int, comm::ProcessGroup& group, store::Store& store) {
    DataParallel replicas(NamedParameters(*net), {}, group, store, SmallBuckets());
    for (int step = 0; step < 3; ++step) {
      replicas.ZeroGrad();
      LossOf(net->forward(batch.images), batch.labels).backward();
      replicas.EnsureReduced();
    }
    EXPECT_EQ(replicas.steps(), 3);
  });
}

}  // namespace
}  // namespace ddp::rt
