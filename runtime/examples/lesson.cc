// The first lesson: what changes in a training program when several processes share the work. It
// learns to tell the arms of two spirals apart.
//
//   ddp-example-lesson CHECKPOINTS [EPOCHS]
//
// Started alone it is a plain training program; with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
// set (by `ddp-worker launch`, torchrun or the operator) each process is one rank. Killed and
// started again, it goes on where its last checkpoint was.
#include <ddp/ddp.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace F = torch::nn::functional;

namespace {

constexpr std::int64_t kSamples = 1000;
constexpr std::int64_t kBatch = 20;  // of each rank
constexpr std::uint64_t kSeed = 1;

// A model as always.
struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(2, 64))),
        more(register_module("more", torch::nn::Linear(64, 64))),
        output(register_module("output", torch::nn::Linear(64, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return output(at::tanh(more(at::tanh(hidden(x))))); }
  torch::nn::Linear hidden, more, output;
};

struct Data {
  at::Tensor points;  // [samples, 2]
  at::Tensor arms;    // [samples], 0 or 1
};

Data MakeSpirals() {
  const at::Tensor arm = torch::arange(kSamples).remainder(2);
  const at::Tensor along = torch::arange(kSamples) / static_cast<double>(kSamples);
  const at::Tensor angle = along * 5 + arm * 3.14159265;
  const at::Tensor radius = along * 2.5 + 0.2;
  return {torch::stack({radius * angle.cos(), radius * angle.sin()}, 1), arm};
}

// Over all ranks, every sample once.
double Accuracy(Net& net, const Data& data) {
  const torch::NoGradGuard no_grad;
  const auto [begin, end] = ddp::EvaluationSlice(kSamples);
  const at::Tensor guess = net.forward(data.points.slice(0, begin, end)).argmax(1);
  at::Tensor right = guess.eq(data.arms.slice(0, begin, end)).sum();
  ddp::AllReduce(right);
  return right.item<double>() / kSamples;
}

void Train(const std::string& folder, std::int64_t epochs) {
  // 1. Meet the other ranks.
  ddp::InitProcessGroup();
  // 2. One device a rank.
  const at::Device device = ddp::SetDevice(ddp::LocalRank());
  torch::manual_seed(kSeed);
  const Data all = MakeSpirals();
  const Data data = {all.points.to(device), all.arms.to(device)};
  const auto net = std::make_shared<Net>();
  net->to(device);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  {
    // 3. Wrap the model: all ranks now have the same parameters, and will keep them the same.
    ddp::DistributedDataParallel model(net);
    // 4. Each rank sees its own part of the samples.
    ddp::DistributedSampler sampler({.samples = kSamples, .seed = kSeed});
    ddp::Checkpointer checkpoints(folder);
    const ddp::Progress start = checkpoints.Load(*net, optimizer).value_or(ddp::Progress());

    std::int64_t step = start.step;
    for (std::int64_t epoch = start.epoch; epoch < epochs; ++epoch) {
      // 5. Another order in every epoch, and the same on all ranks.
      sampler.SetEpoch(epoch);
      const at::Tensor order = torch::tensor(
          std::vector<std::int64_t>(sampler.indices().begin(), sampler.indices().end()), device);
      for (std::int64_t begin = 0; begin < sampler.size(); begin += kBatch, ++step) {
        const at::Tensor batch = order.slice(0, begin, begin + kBatch);
        optimizer.zero_grad();
        // 6. As in any training program; .grad is the mean over all ranks when backward returns.
        F::cross_entropy(model(data.points.index_select(0, batch)),
                         data.arms.index_select(0, batch))
            .backward();
        optimizer.step();
      }
      // 7. All ranks call it, rank 0 writes.
      checkpoints.Save({.step = step, .epoch = epoch + 1}, *net, optimizer);
    }
    checkpoints.Wait();
    model.VerifyReplicas();
    const double accuracy = Accuracy(*net, data);
    if (ddp::Rank() == 0) {
      std::printf("%d rank(s), step %lld: accuracy %.1f %%, parameters %016llx\n", ddp::WorldSize(),
                  static_cast<long long>(step), 100 * accuracy,
                  static_cast<unsigned long long>(model.ParameterHash()));
    }
  }
  // 8. Leave together.
  ddp::DestroyProcessGroup();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CHECKPOINTS [EPOCHS]\n", argv[0]);
    return 64;
  }
  return ddp::Main([&] { Train(argv[1], argc > 2 ? std::atoll(argv[2]) : 40); });
}
