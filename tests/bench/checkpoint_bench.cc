// An asynchronous checkpoint of 100 MB while two ranks compute, one thread each:
//   checkpoint_bench FOLDER
// Prints, as JSON in seconds: how long the training thread stands still (checkpoint.stall), a step
// without a save (checkpoint.step) and during one (checkpoint.step_during), and how long a save
// takes, synced and checksummed (checkpoint.save). A step is matrix products and an all-reduce.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/comm/process_group.h"
#include "runtime/store/rendezvous.h"
#include "tests/bench/ranks.h"

namespace ddp::rt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 2;
constexpr int kTensors = 50;
constexpr size_t kElements = 100'000'000 / sizeof(float) / kTensors;
constexpr int kSteps = 40;
constexpr int kSaves = 3;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One rank's compute, and a sum of all ranks that none leaves before the last has come.
class Steps {
 public:
  explicit Steps(comm::ProcessGroup& group)
      : group_(group), a_(at::randn({700, 700})), b_(at::randn({700, 700})) {}

  // Returns the seconds it took. `flag` becomes the sum over ranks.
  double Run(float& flag) {
    const auto start = Clock::now();
    for (int i = 0; i < 4; ++i) {
      c_ = at::mm(a_, b_);
    }
    group_.AllReduce(&flag, 1, comm::DataType::kF32, comm::ReduceOp::kSum, {.name = "step"})
        ->Wait();
    return Since(start);
  }

 private:
  comm::ProcessGroup& group_;
  at::Tensor a_;
  at::Tensor b_;
  at::Tensor c_;
};

checkpoint::Contents Contents(const std::vector<std::vector<float>>& values) {
  checkpoint::Contents contents;
  for (size_t i = 0; i < values.size(); ++i) {
    auto& to = i < values.size() / 3 ? contents.model : contents.optimizer;
    to.push_back({.name = fmt::format("tensor.{}", i),
                  .type = checkpoint::DType::kF32,
                  .shape = {static_cast<int64_t>(values[i].size())},
                  .elements = std::as_bytes(std::span(values[i]))});
  }
  return contents;
}

double UsualStep(Steps& steps) {
  double seconds = 0;
  for (int i = 0; i < kSteps; ++i) {
    float none = 0;
    seconds += steps.Run(none);
  }
  return seconds / kSteps;
}

void SaveWhileComputing(Steps& steps, const char* path) {
  checkpoint::CheckpointFolder folder(path, 1);
  std::atomic<bool> saved = false;
  double save_seconds = 0;
  checkpoint::SaverOptions options;
  options.saved = [&](const auto&, const auto&, auto took) {
    save_seconds += took.count();
    saved = true;
  };
  checkpoint::Saver saver(folder, options);
  const std::vector<std::vector<float>> values(kTensors, std::vector<float>(kElements, 0.5F));
  checkpoint::Contents contents = Contents(values);
  saver.Reserve(contents);
  const double usual = UsualStep(steps);
  double stall = 0;
  double during = 0;
  int count = 0;
  for (int save = 0; save < kSaves; ++save) {
    saved = false;
    contents.position.step = save;
    const auto start = Clock::now();
    saver.Start(contents);
    stall += Since(start);
    for (float done = 0; done == 0; ++count) {
      done = saved && save + 1 == kSaves ? 2.0F : 0.0F;
      during += steps.Run(done);
      if (saved && save + 1 < kSaves) {
        break;
      }
    }
  }
  fmt::print(
      "{{\"checkpoint.stall\": {:.6f}, \"checkpoint.step\": {:.6f}, "
      "\"checkpoint.step_during\": {:.6f}, \"checkpoint.save\": {:.6f}}}\n",
      stall / kSaves, usual, during / count, save_seconds / kSaves);
  std::fflush(stdout);
}

void ComputeAlong(Steps& steps) {
  UsualStep(steps);
  for (float done = 0; done == 0;) {
    steps.Run(done);
  }
}

void RunRank(const RankEnv& env, const char* folder) {
  at::set_num_threads(1);
  store::Rendezvous rendezvous(env);
  comm::GroupOptions options;
  options.rank = env.rank;
  options.world_size = env.world_size;
  options.master_addr = env.master_addr;
  const auto group = comm::CreateProcessGroup(rendezvous.store(), options);
  Steps steps(*group);
  if (env.rank == 0) {
    SaveWhileComputing(steps, folder);
  } else {
    ComputeAlong(steps);
  }
  group->Shutdown(std::chrono::seconds(10));
  rendezvous.Shutdown();
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: checkpoint_bench FOLDER\n");
    return static_cast<int>(ExitCode::kUsage);
  }
  return RunRanks(kRanks, [&](const RankEnv& env) { RunRank(env, argv[1]); });
}

}  // namespace
}  // namespace ddp::rt

int main(int argc, char** argv) { return ddp::rt::Main(argc, argv); }
