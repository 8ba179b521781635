// A program that uses the public API as one rank and checks what it sees; ranks.py runs several.
//   api_check CASE
#include <ddp/ddp.h>
#include <ddp/version.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace {

void Check(bool condition, const std::string& what) {
  if (!condition) {
    throw std::runtime_error("check failed: " + what);
  }
}

ddp::InitOptions Quick() {
  return {.init_timeout = std::chrono::seconds(20), .timeout = std::chrono::seconds(20)};
}

struct Net : torch::nn::Module {
  explicit Net(bool swapped = false) {
    const auto add = [this](const char* name) {
      return register_module(name, torch::nn::Linear(8, 8));
    };
    if (swapped) {
      right = add("right");
      left = add("left");
    } else {
      left = add("left");
      right = add("right");
    }
  }
  at::Tensor forward(const at::Tensor& x, bool branch = true) {
    const at::Tensor hidden = torch::tanh(left(x));
    return branch ? right(hidden) : hidden;
  }
  torch::nn::Linear left{nullptr}, right{nullptr};
};

std::shared_ptr<Net> MakeNet(std::uint64_t seed) {
  torch::manual_seed(seed);
  return std::make_shared<Net>();
}

at::Tensor Inputs(std::int64_t samples) {
  torch::manual_seed(99);
  return torch::randn({samples, 8});
}

at::Tensor Mine(const at::Tensor& batch) {
  const std::int64_t n = batch.size(0) / ddp::WorldSize();
  return batch.narrow(0, ddp::Rank() * n, n);
}

at::Tensor LossOf(const at::Tensor& output) { return (output - 1).square().mean(); }

void Collectives() {
  try {
    ddp::Rank();
    Check(false, "Rank without a group must throw");
  } catch (const ddp::Error& e) {
    Check(std::string(e.what()).find("InitProcessGroup") != std::string::npos, e.what());
  }
  ddp::InitProcessGroup(Quick());
  const int rank = ddp::Rank();
  const int world = ddp::WorldSize();
  Check(ddp::IsInitialized() && std::string(ddp::Version()) != "", "initialised");
  Check(ddp::SetDevice(ddp::LocalRank()).is_cpu(), "no GPU here");
  const double sum = world * (world + 1) / 2.0;
  for (const auto type :
       {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf, torch::kInt, torch::kLong}) {
    const at::Tensor t = torch::full({3, 5}, rank + 1, type);
    ddp::AllReduce(t);
    Check(t.to(torch::kDouble).eq(sum).all().item<bool>(), "sum");
    t.fill_(rank);
    ddp::AllReduce(t, ddp::ReduceOp::kMax);
    Check(t.to(torch::kDouble).eq(world - 1).all().item<bool>(), "max");
  }
  const at::Tensor mean = torch::full({4, 4}, rank + 1.0);
  ddp::AllReduce(mean.t(), ddp::ReduceOp::kMean);
  Check(torch::allclose(mean, torch::full({4, 4}, sum / world)), "mean of a transposed tensor");
  auto pending = ddp::AllReduceAsync(mean);
  pending.Wait();
  Check(pending.Done() && torch::allclose(mean, torch::full({4, 4}, sum)), "asynchronous");
  const at::Tensor flag = torch::full({2}, rank == world - 1, torch::kBool);
  ddp::Broadcast(flag, world - 1);
  Check(flag.all().item<bool>(), "broadcast of booleans");
  const at::Tensor all = ddp::AllGather(torch::full({2}, rank));
  Check(all.sizes() == at::IntArrayRef({world, 2}) && all[world - 1][1].item<int>() == world - 1,
        "all-gather");
  const at::Tensor part = ddp::ReduceScatter(torch::arange(world * 2.0).view({world * 2}));
  Check(part.numel() == 2 && part[1].item<double>() == world * (2 * rank + 1), "reduce-scatter");
  ddp::Barrier();
  ddp::DestroyProcessGroup();
  ddp::DestroyProcessGroup();
}

// Ranks with a part of the batch each, and a user who knows nothing of the engine, do what one
// process does.
void Equality() {
  ddp::InitProcessGroup(Quick());
  const at::Tensor batch = Inputs(12);
  const auto alone = MakeNet(1);
  const auto net = MakeNet(static_cast<std::uint64_t>(1 + ddp::Rank()));  // rank 0's must win
  torch::optim::SGD reference(alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  {
    ddp::DistributedDataParallel model(net);
    for (int step = 0; step < 20; ++step) {
      reference.zero_grad();
      LossOf(alone->forward(batch)).backward();
      reference.step();
      optimizer.zero_grad();
      if (step % 2 == 0) {
        LossOf(model(Mine(batch))).backward();
      } else {
        const at::Tensor mine = Mine(batch);
        const std::int64_t half = mine.size(0) / 2;
        {
          const auto guard = model.no_sync();
          (LossOf(model(mine.slice(0, 0, half))) / 2).backward();
        }
        (LossOf(model(mine.slice(0, half))) / 2).backward();
      }
      for (std::size_t i = 0; i < net->parameters().size(); ++i) {
        const at::Tensor difference = net->parameters()[i].grad() - alone->parameters()[i].grad();
        Check(difference.abs().max().item<double>() < 1e-6, "gradients equal");
      }
      optimizer.step();
      model.VerifyReplicas();
    }
    Check(net->named_parameters().contains("left.weight"), "names are the inner module's");
    // Unequal numbers of batches: rank 0 has one more.
    auto inputs = model.join();
    int batches = ddp::Rank() == 0 ? 3 : 2;
    while (inputs.Next(batches-- > 0)) {
      model.ZeroGrad();
      if (inputs.has_batch()) {
        LossOf(model(Mine(batch))).backward();
      } else {
        inputs.Shadow();
      }
      optimizer.step();
    }
    Check(inputs.steps() == 3, "as many steps as the longest");
    std::printf("%s\n", inputs.Describe().c_str());
    model.VerifyReplicas();
  }
  ddp::DestroyProcessGroup();
}

// Rank 1 leaves without a word; the last result is intact, and nobody hangs.
void LeaveWithoutDestroy() {
  ddp::InitProcessGroup(Quick());
  const at::Tensor t = torch::full({1000}, ddp::Rank() + 1.0);
  ddp::AllReduce(t);
  Check(t.eq(3.0).all().item<bool>(), "the last result is intact");
  if (ddp::Rank() == 0) {
    ddp::DestroyProcessGroup(std::chrono::seconds(3));
  }
}

void Unused() {
  ddp::InitProcessGroup(Quick());
  const auto net = MakeNet(1);
  ddp::DistributedDataParallel model(net);
  for (int step = 1; step <= 3; ++step) {
    model.ZeroGrad();
    LossOf(model(Inputs(4), step < 3 || ddp::Rank() == 0)).backward();
  }
}

void Uneven() {
  ddp::InitProcessGroup(Quick());
  const auto net = MakeNet(1);
  ddp::DistributedDataParallel model(net);
  // As a sampler without padding would have it: 4, 3 and 3 samples in batches of 2.
  const int batches = ddp::Rank() == 0 ? 3 : 2;
  for (int batch = 0; batch < batches; ++batch) {
    model.ZeroGrad();
    LossOf(model(Inputs(2))).backward();
  }
  ddp::Barrier("end of epoch");
}

void Swapped() {
  ddp::InitProcessGroup(Quick());
  ddp::DistributedDataParallel model(std::make_shared<Net>(/*swapped=*/ddp::Rank() == 1));
}

// An infinite gradient on rank 1 in step 7.
void Overflow() {
  ddp::InitProcessGroup(Quick());
  const auto net = MakeNet(1);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  {
    ddp::DistributedDataParallel model(net);
    ddp::GradScaler scaler(model);
    for (int step = 1; step <= 10; ++step) {
      const std::uint64_t before = model.ParameterHash();
      optimizer.zero_grad();
      const at::Tensor loss = LossOf(model(Mine(Inputs(8))));
      const bool bad = step == 7 && ddp::Rank() == 1;
      scaler.Scale(bad ? loss * std::numeric_limits<double>::infinity() : loss).backward();
      scaler.Unscale(model);
      ddp::ClipGradNorm(model, 1.0);
      Check(scaler.Step(model, optimizer) == (step != 7), "left out where it overflowed");
      scaler.Update();
      Check((model.ParameterHash() == before) == (step == 7), "parameters move else");
      model.VerifyReplicas();
    }
    Check(scaler.skipped_steps() == 1 && scaler.scale() == 32768, "the scale is halved");
  }
  ddp::DestroyProcessGroup();
}

// Dropout from the default generator, a loss scaler that has moved, an optimizer with state.
class Trained {
 public:
  explicit Trained(const std::string& folder, std::uint64_t seed)
      : net_(MakeNet(seed)),
        model_(net_),
        optimizer_({.kind = ddp::OptimizerOptions::Kind::kAdamW}, *net_),
        scaler_(model_, {.growth_interval = 2}),
        checkpoints_(folder) {
    checkpoints_.Keep("scaler", scaler_.state());
    torch::manual_seed(seed + static_cast<std::uint64_t>(ddp::Rank()));
  }
  // The hash of the parameters after steps begin + 1 to end.
  std::uint64_t Steps(int begin, int end, const at::Tensor& batch) {
    for (int step = begin; step < end; ++step) {
      model_.ZeroGrad();
      const at::Tensor kept = torch::dropout(Mine(batch), 0.3, /*train=*/true);
      scaler_.Scale(LossOf(model_(kept))).backward();
      scaler_.Step(model_, optimizer_, 0.01);
      scaler_.Update();
    }
    return model_.ParameterHash();
  }
  void Save(int step) {
    checkpoints_.Save({.step = step}, *net_, optimizer_);
    checkpoints_.Wait();
  }
  std::int64_t Load() { return checkpoints_.Load(*net_, optimizer_).value().step; }
  double scale() const { return scaler_.scale(); }

 private:
  std::shared_ptr<Net> net_;
  ddp::DistributedDataParallel<std::shared_ptr<Net>> model_;
  ddp::FusedOptimizer optimizer_;
  ddp::GradScaler scaler_;
  ddp::Checkpointer checkpoints_;
};

// A run that goes on from a checkpoint, in an object of another seed, is the one that went on.
void Resume() {
  ddp::InitProcessGroup(Quick());
  char name[] = "/tmp/ddp-api-check.XXXXXX";
  const at::Tensor folder = torch::zeros({sizeof(name)}, torch::kByte);
  if (ddp::Rank() == 0) {
    Check(mkdtemp(name) != nullptr, "a temporary folder");
    std::memcpy(folder.mutable_data_ptr(), name, sizeof(name));
  }
  ddp::Broadcast(folder);
  const std::string path = static_cast<const char*>(folder.const_data_ptr());
  const at::Tensor batch = Inputs(12);
  std::uint64_t wanted = 0;
  double scale = 0;
  {
    Trained whole(path, 1);
    whole.Steps(0, 7, batch);
    whole.Save(7);
    wanted = whole.Steps(7, 15, batch);
    scale = whole.scale();
  }
  {
    Trained other(path, 5);
    const std::uint64_t unlike = other.Steps(0, 2, batch);
    Check(other.Load() == 7, "the step that was saved");
    Check(other.Steps(7, 15, batch) == wanted, "the same parameters, to the bit");
    Check(other.scale() == scale && scale != 65536, "the same scale");
    Check(unlike != wanted, "and not by chance");
  }
  ddp::Barrier("compared");
  if (ddp::Rank() == 0) {
    std::filesystem::remove_all(path);
  }
  ddp::DestroyProcessGroup();
}

void Seeds() {
  std::set<std::uint64_t> seeds;
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (int rank = 0; rank < 16; ++rank) {
      for (int worker = 0; worker < 8; ++worker) {
        seeds.insert(ddp::Seed(7, epoch, rank, worker));
      }
    }
  }
  Check(seeds.size() == 20 * 16 * 8, "all seeds differ");
  Check(ddp::Seed(7, 1, 2, 3) == ddp::Seed(7, 1, 2, 3), "and are functions of their arguments");
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> cases = {
      {"collectives", Collectives}, {"equality", Equality}, {"leave", LeaveWithoutDestroy},
      {"unused", Unused},           {"uneven", Uneven},     {"swapped", Swapped},
      {"overflow", Overflow},       {"resume", Resume},     {"seeds", Seeds},
  };
  const auto found = cases.find(argc == 2 ? argv[1] : "");
  if (found == cases.end()) {
    std::fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 64;
  }
  return ddp::Main(found->second);
}
