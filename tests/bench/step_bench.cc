// Time and memory of a training step, ranks as processes of this host, one thread each:
//   step_bench mlp|resnet18|gpt RANKS
// with the gradient engine as in a real run ("step"), and with its communication off ("compute"),
// in turn, in the same processes. Prints rank 0's numbers as JSON: {"ours.mlp.step": seconds, …}:
// medians; "start": from the start of a rank's process to the end of its first step; "rss": bytes.
#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/memory.h"
#include "runtime/base/net.h"
#include "runtime/comm/process_group.h"
#include "runtime/ddp/data_parallel.h"
#include "runtime/ddp/fused_optimizer.h"
#include "runtime/store/rendezvous.h"
#include "runtime/train/model.h"
#include "tests/bench/ranks.h"

namespace ddp::rt {
namespace {

constexpr int kBlocks = 6;  // of each kind
constexpr const char* kRankVariable = "RANK";

struct Workload {
  train::ModelConfig model;
  data::DataShape shape;
  int steps;  // in a block
  at::Tensor inputs;
  at::Tensor labels;
};

Workload MakeWorkload(const std::string& name) {
  if (name == "mlp") {
    return {.model = {.name = "mlp", .hidden = 1024, .hidden_layers = 2},
            .shape = {.channels = 1, .rows = 28, .columns = 28, .classes = 10},
            .steps = 20,
            .inputs = at::randn({64, 1, 28, 28}),
            .labels = at::randint(10, {64}, at::kLong)};
  }
  if (name == "resnet18") {
    return {.model = {.name = "resnet18"},
            .shape = {.channels = 3, .rows = 32, .columns = 32, .classes = 10},
            .steps = 4,
            .inputs = at::randn({8, 3, 32, 32}),
            .labels = at::randint(10, {8}, at::kLong)};
  }
  Workload gpt{.model = {.name = "gpt"},
               .shape = {.classes = 96},
               .steps = 4,
               .inputs = at::randint(96, {4, 128}, at::kLong),
               .labels = at::randint(96, {4L * 128}, at::kLong)};
  gpt.model.context = 128;
  gpt.model.tie_weights = false;  // as the peer's
  return gpt;
}

// Seconds since this process was started.
double SecondsHere() {
  std::ifstream file("/proc/self/stat");
  std::string text(std::istreambuf_iterator<char>(file), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  constexpr int kStartTime = 20;  // of the fields after the name
  std::string field;
  for (int i = 0; i < kStartTime; ++i) {
    fields >> field;
  }
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 -
         std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const std::string& name, comm::ProcessGroup& group, store::Store& store)
      : name_(name),
        group_(group),
        work_(MakeWorkload(name)),
        model_(train::MakeModel(work_.model, work_.shape, 1)),
        replicas_(model_->parameters(), {}, group, store, {}),
        optimizer_({}, model_->parameters()) {}

  void Run() {
    Step();
    Print("start", SecondsHere());
    for (int i = 0; i < 4; ++i) {  // to warm up
      Step();
    }
    std::vector<double> with;
    std::vector<double> without;
    std::vector<double> exposed;
    std::vector<double> none;
    for (int block = 0; block < kBlocks; ++block) {
      Measure(with, exposed);
      const DataParallel::NoSync alone(replicas_);
      Measure(without, none);
    }
    Print("step", Median(with));
    Print("compute", Median(without));
    Print("exposed", Median(exposed));
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    Print("rss", static_cast<double>(usage.ru_maxrss) * 1024);
  }

 private:
  void Step() {
    replicas_.ZeroGrad();
    const at::Tensor scores = model_->Forward(work_.inputs, /*training=*/true);
    at::cross_entropy_loss(scores.flatten(0, -2), work_.labels).backward();
    optimizer_.Step(1e-4);
  }

  void Measure(std::vector<double>& seconds, std::vector<double>& exposed) {
    group_.Barrier({.name = "block"})->Wait();
    for (int i = 0; i < work_.steps; ++i) {
      const auto start = Deadline::Clock::now();
      Step();
      seconds.push_back(std::chrono::duration<double>(Deadline::Clock::now() - start).count());
      exposed.push_back(std::chrono::duration<double>(replicas_.exposed()).count());
    }
  }

  void Print(const char* what, double value) const {
    if (group_.rank() == 0) {
      fmt::print("{{\"ours.{}.{}\": {:.9f}}}\n", name_, what, value);
      std::fflush(stdout);
    }
  }

  const std::string name_;
  comm::ProcessGroup& group_;
  Workload work_;
  std::unique_ptr<train::Model> model_;
  DataParallel replicas_;
  FusedOptimizer optimizer_;
};

int RunRank(const std::string& name) {
  const RankEnv env = ReadRankEnv(ProcessEnv());
  at::set_num_threads(1);
  store::Rendezvous rendezvous(env);
  comm::GroupOptions options;
  options.rank = env.rank;
  options.world_size = env.world_size;
  options.master_addr = env.master_addr;
  const auto group = comm::CreateProcessGroup(rendezvous.store(), options);
  Bench(name, *group, rendezvous.store()).Run();
  group->Shutdown(std::chrono::seconds(10));
  rendezvous.Shutdown();
  return 0;
}

// Each rank is a program of its own, so that its start and its memory are.
int StartRanks(char** argv) {
  const int port = BoundPort(ListenTcp("127.0.0.1", 0, ""));
  setenv("WORLD_SIZE", argv[2], 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  UseHugePages();  // as ddp-worker does for its training program
  return ForkRanks(std::atoi(argv[2]), [argv](int rank) {
    setenv(kRankVariable, std::to_string(rank).c_str(), 1);
    execv("/proc/self/exe", argv);
    _exit(127);
  });
}

}  // namespace
}  // namespace ddp::rt

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: step_bench mlp|resnet18|gpt RANKS\n");
    return static_cast<int>(ddp::rt::ExitCode::kUsage);
  }
  try {
    return getenv(ddp::rt::kRankVariable) == nullptr ? ddp::rt::StartRanks(argv)
                                                     : ddp::rt::RunRank(argv[1]);
  } catch (const ddp::rt::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return static_cast<int>(e.code());
  }
}
