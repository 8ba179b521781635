// The second lesson: a convolutional network with batch normalisation over all ranks, optimizer
// state divided among them (ZeRO-1), gradients accumulated over two micro-batches, clipped, and
// 16-bit autocast on request. Its pictures are noisy bars in eight directions.
//
//   ddp-example-convnet CHECKPOINTS [STEPS] [bf16]
//
// The batch of all ranks together is fixed, so any number of ranks that divides it trains the same.
// A checkpoint every 20 steps; started again, also with another number of ranks, it goes on there.
#include <ddp/ddp.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace F = torch::nn::functional;

namespace {

constexpr std::int64_t kClasses = 8;
constexpr std::int64_t kSide = 12;
constexpr std::int64_t kGlobalBatch = 48;
constexpr std::int64_t kMicroBatches = 2;
constexpr std::int64_t kSaveEvery = 20;
constexpr std::uint64_t kSeed = 3;
constexpr double kLearningRate = 3e-3;
constexpr double kMaxNorm = 1.0;

struct Block : torch::nn::Module {
  Block(std::int64_t in, std::int64_t out)
      : conv(register_module(
            "conv", torch::nn::Conv2d(
                        torch::nn::Conv2dOptions(in, out, 3).stride(2).padding(1).bias(false)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(out))) {}
  at::Tensor forward(const at::Tensor& x) { return F::relu(norm(conv(x))); }
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
};

struct Net : torch::nn::Module {
  Net()
      : first(register_module("first", std::make_shared<Block>(1, 16))),
        second(register_module("second", std::make_shared<Block>(16, 32))),
        output(register_module("output", torch::nn::Linear(32 * 3 * 3, kClasses))) {}
  at::Tensor forward(const at::Tensor& x) {
    return output(second->forward(first->forward(x)).flatten(1));
  }
  std::shared_ptr<Block> first, second;
  torch::nn::Linear output;
};

struct Batch {
  at::Tensor images;
  at::Tensor labels;
};

// The pictures of a step: a function of its number, so that a resumed run sees the same ones.
Batch MakeBatch(std::int64_t step, const at::Device& device) {
  torch::manual_seed(ddp::Seed(kSeed, step, /*rank=*/0));
  const at::Tensor labels = torch::randint(kClasses, {kGlobalBatch}, torch::kLong);
  const at::Tensor angle = (labels * (M_PI / kClasses)).view({-1, 1, 1});
  const at::Tensor at = torch::arange(kSide) - (kSide - 1) / 2.0;
  const at::Tensor distance = at.view({1, 1, -1}) * angle.sin() - at.view({1, -1, 1}) * angle.cos();
  const at::Tensor bars = distance.abs().lt(1.2).to(torch::kFloat);
  return {(bars + torch::randn({kGlobalBatch, kSide, kSide}) * 0.5).unsqueeze(1).to(device),
          labels.to(device)};
}

void Train(const std::string& folder, std::int64_t steps, bool bf16) {
  ddp::InitProcessGroup();
  if (kGlobalBatch % (ddp::WorldSize() * kMicroBatches) != 0) {
    throw ddp::Error(ddp::ExitCode::kConfig, "the batch of 48 can't be divided among the ranks");
  }
  const at::Device device = ddp::SetDevice(ddp::LocalRank());
  torch::manual_seed(kSeed);  // the same initial parameters, whatever the number of ranks
  const auto net = std::make_shared<Net>();
  net->to(device);
  ddp::ConvertSyncBatchNorm(*net);
  {
    ddp::DistributedDataParallel model(
        net, {.broadcast_buffers = false, .shard_optimizer = true, .scatter_gradients = true});
    ddp::ZeroOptimizer optimizer({.weight_decay = 0.05, .decay_matrices_only = true}, model);
    ddp::Checkpointer checkpoints(folder);
    const ddp::Progress start = checkpoints.Load(*net, optimizer).value_or(ddp::Progress());

    const std::int64_t part = kGlobalBatch / ddp::WorldSize() / kMicroBatches;
    double norm = 0;
    for (std::int64_t step = start.step; step < steps; ++step) {
      const Batch batch = MakeBatch(step, device);
      model.ZeroGrad();
      const auto micro_step = [&](std::int64_t micro) {
        const std::int64_t begin = (micro * ddp::WorldSize() + ddp::Rank()) * part;
        const ddp::Autocast autocast(device.type(), torch::kBFloat16, bf16);
        const at::Tensor scores = model(batch.images.slice(0, begin, begin + part));
        (F::cross_entropy(scores.to(torch::kFloat), batch.labels.slice(0, begin, begin + part)) /
         kMicroBatches)
            .backward();
      };
      {
        const auto guard = model.no_sync();  // adds up, sends nothing
        for (std::int64_t micro = 0; micro + 1 < kMicroBatches; ++micro) {
          micro_step(micro);
        }
      }
      micro_step(kMicroBatches - 1);
      norm = ddp::ClipGradNorm(model, kMaxNorm);
      optimizer.Step(kLearningRate);
      if ((step + 1) % kSaveEvery == 0 || step + 1 == steps) {
        checkpoints.Save({.step = step + 1}, *net, optimizer);
      }
    }
    checkpoints.Wait();
    model.VerifyReplicas();
    net->eval();
    const Batch test = MakeBatch(-1, device);
    const torch::NoGradGuard no_grad;
    const at::Tensor right = net->forward(test.images).argmax(1).eq(test.labels).sum();
    if (ddp::Rank() == 0) {
      std::printf("%d rank(s), step %lld: accuracy %.1f %%, norm %.3f, parameters %016llx\n",
                  ddp::WorldSize(), static_cast<long long>(steps),
                  100 * right.item<double>() / kGlobalBatch, norm,
                  static_cast<unsigned long long>(model.ParameterHash()));
    }
  }
  ddp::DestroyProcessGroup();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CHECKPOINTS [STEPS] [bf16]\n", argv[0]);
    return 64;
  }
  return ddp::Main([&] {
    Train(argv[1], argc > 2 ? std::atoll(argv[2]) : 60, argc > 3 && std::string(argv[3]) == "bf16");
  });
}
