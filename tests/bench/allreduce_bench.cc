// Time of an all-reduce of f32 by size, ranks as processes of this host that meet as in a real run:
//   allreduce_bench shm|tcp RANKS
// Prints the seconds that one takes as JSON: {"shm.place.2.4096": …, "shm.copy.2.4096": …}. "place"
// is memory from ProcessGroup::Allocate, where gradients live; "copy" is any other memory. Each is
// the mean over the repetitions after three to warm up, seen by rank 0.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "runtime/comm/process_group.h"
#include "runtime/store/rendezvous.h"
#include "tests/bench/ranks.h"

namespace ddp::rt {
namespace {

constexpr std::size_t kSizes[] = {4 << 10, 256 << 10, 1 << 20, 25 << 20, 100 << 20};

double SecondsPerReduce(comm::ProcessGroup& group, void* data, std::size_t bytes) {
  const auto reduce = [&] {
    group
        .AllReduce(data, bytes / sizeof(float), comm::DataType::kF32, comm::ReduceOp::kSum,
                   {.name = "bench"})
        ->Wait();
  };
  for (int i = 0; i < 3; ++i) {
    reduce();
  }
  // Small ones are so quick that few would fit between two ticks of the scheduler.
  const std::size_t repetitions = std::clamp<std::size_t>((200 << 20) / bytes, 3, 20000);
  group.Barrier({.name = "start"})->Wait();
  const auto start = Deadline::Clock::now();
  for (std::size_t i = 0; i < repetitions; ++i) {
    reduce();
  }
  return std::chrono::duration<double>(Deadline::Clock::now() - start).count() /
         static_cast<double>(repetitions);
}

void RunRank(const RankEnv& env, const char* transport) {
  store::Rendezvous rendezvous(env);
  comm::GroupOptions options;
  options.rank = env.rank;
  options.world_size = env.world_size;
  options.master_addr = env.master_addr;
  options.transport = comm::ParseTransport(transport);
  const auto group = comm::CreateProcessGroup(rendezvous.store(), options);
  for (const std::size_t bytes : kSizes) {
    std::vector<float> elsewhere(bytes / sizeof(float), 1.0F);
    const auto arena = group->Allocate(bytes, {.name = "arena"});
    const double in_place = SecondsPerReduce(*group, arena->data(), bytes);
    const double copied = SecondsPerReduce(*group, elsewhere.data(), bytes);
    if (env.rank == 0) {
      fmt::print("{{\"{0}.place.{1}.{2}\": {3:.9f}, \"{0}.copy.{1}.{2}\": {4:.9f}}}\n",
                 group->transport(), env.world_size, bytes, in_place, copied);
      std::fflush(stdout);
    }
  }
  group->Shutdown(std::chrono::seconds(10));
  rendezvous.Shutdown();
}

int Main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: allreduce_bench shm|tcp RANKS\n");
    return static_cast<int>(ExitCode::kUsage);
  }
  return RunRanks(std::atoi(argv[2]), [&](const RankEnv& env) { RunRank(env, argv[1]); });
}

}  // namespace
}  // namespace ddp::rt

int main(int argc, char** argv) { return ddp::rt::Main(argc, argv); }
