#include "runtime/train_command.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "runtime/base/cores.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/comm/cuda.h"
#include "runtime/comm/process_group.h"
#include "runtime/data/find.h"
#include "runtime/data/open.h"
#include "runtime/health/health.h"
#include "runtime/health/watchdog.h"
#include "runtime/store/rendezvous.h"
#include "runtime/train/board.h"
#include "runtime/train/config.h"
#include "runtime/train/device.h"
#include "runtime/train/trainer.h"

namespace ddp::rt {
namespace {

// For the last works, then for the store: together shorter than any grace period.
constexpr std::chrono::seconds kShutdownTimeout(5);
// From the result, good or bad, to the end of the program.
constexpr std::chrono::seconds kLeaveWithin(15);
// For the word about a stuck rank to reach the others.
constexpr std::chrono::seconds kStuckEndsWithin(2);
constexpr int kSignalExitBase = 128;  // as shells name a death by signal

train::Config ReadConfig(const TrainArguments& arguments, const EnvReader& read) {
  if (!arguments.config_env.empty()) {
    const auto text = read(arguments.config_env.c_str());
    if (!text) {
      throw Error(ExitCode::kConfig,
                  fmt::format("environment variable {}, which --config-env names, "
                              "is not set: put the YAML text into it",
                              arguments.config_env));
    }
    return train::ParseConfig(*text, "$" + arguments.config_env);
  }
  std::ifstream file(arguments.config_file);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    throw Error(ExitCode::kConfig,
                fmt::format("config file {} can't be read, or is empty", arguments.config_file));
  }
  return train::ParseConfig(text.str(), arguments.config_file);
}

int ThreadCount(const train::Config& config, const RankEnv& env, const EnvReader& read) {
  if (config.train.threads > 0) {
    return config.train.threads;
  }
  if (read("OMP_NUM_THREADS")) {
    return at::get_num_threads();
  }
  return std::max(1, UsableCores() / env.local_world_size);
}

data::Datasets ReadDatasets(const train::Config& config) {
  const auto path = data::FindData(config.data.path, data::PlacesOfThisProcess());
  data::OpenOptions options;
  options.format = config.data.format;
  options.augment = config.data.augment;
  options.raw_tokens =
      config.data.token_type == "u16" ? data::TokenType::kU16 : data::TokenType::kU32;
  options.evaluation_part = config.data.evaluation_part;
  if (config.model.takes_tokens()) {
    options.length = config.model.context;
    options.vocabulary = config.model.vocabulary;
  }
  data::Datasets sets = data::OpenDatasets(path, options);
  Log(Level::kInfo, "data path={} training={} test={}", path.string(), sets.train->size(),
      sets.test->size());
  return sets;
}

std::string CheckpointDir(const train::Config& config, const RankEnv& env) {
  return config.checkpoint.dir.empty() ? env.checkpoint_dir : config.checkpoint.dir;
}

// Only rank 0 has the folder: the others may not even see the volume. But with a sharded optimizer
// each saves its own part.
std::unique_ptr<checkpoint::CheckpointFolder> PrepareFolder(const train::Config& config,
                                                            const RankEnv& env) {
  const std::string dir = CheckpointDir(config, env);
  if (env.rank != 0 && (dir.empty() || !config.optimizer.sharded)) {
    return nullptr;
  }
  if (dir.empty()) {
    Log(Level::kWarning, "no checkpoints: neither checkpoint.dir nor DDP_CHECKPOINT_DIR is set");
    return nullptr;
  }
  auto folder = std::make_unique<checkpoint::CheckpointFolder>(dir, config.checkpoint.keep);
  folder->Prepare();
  return folder;
}

// The groups of a rank: `host` for memory of the host; the others where they are needed.
struct Groups {
  std::unique_ptr<comm::ProcessGroup> host;
  std::unique_ptr<comm::ProcessGroup> gpu;
  std::unique_ptr<comm::ProcessGroup> norm;

  comm::ProcessGroup& device() const { return gpu ? *gpu : *host; }
  std::vector<comm::ProcessGroup*> all() const {
    std::vector<comm::ProcessGroup*> groups;
    for (const auto* group : {&norm, &gpu, &host}) {
      if (*group) {
        groups.push_back(group->get());
      }
    }
    return groups;
  }
};

std::unique_ptr<comm::ProcessGroup> Connect(const train::Config& config, const RankEnv& env,
                                            store::Store& store, const std::string& name,
                                            bool gpu_memory) {
  comm::GroupOptions options{
      .rank = env.rank,
      .world_size = env.world_size,
      .job_uid = env.job_uid,
      .attempt = env.attempt,
      .transport = comm::ParseTransport(config.distributed.transport),
      .master_addr = env.master_addr,
      .gpu_memory = gpu_memory,
      .local_rank = env.local_rank,
      .init_timeout = std::chrono::seconds(config.distributed.init_timeout_seconds),
      .op_timeout = std::chrono::seconds(config.distributed.timeout_seconds),
      .name = name};
  if (!gpu_memory && options.transport == comm::TransportKind::kNccl) {
    options.transport = comm::TransportKind::kAuto;
  }
  auto group = comm::CreateProcessGroup(store, options);
  Log(Level::kInfo, "connected {}", group->description());
  return group;
}

Groups ConnectAll(const train::Config& config, const RankEnv& env, store::Store& store,
                  const at::Device& device) {
  if (config.distributed.transport == "nccl" && !device.is_cuda()) {
    throw Error(ExitCode::kConfig,
                fmt::format("distributed.transport is nccl, but {}", comm::ProbeCuda().why_none));
  }
  Groups groups;
  groups.host = Connect(config, env, store, "default", false);
  if (device.is_cuda()) {
    groups.gpu = Connect(config, env, store, "gpu", true);
  }
  if (config.distributed.sync_batch_norm) {
    groups.norm = Connect(config, env, store, "batch norm", device.is_cuda());
  }
  return groups;
}

// Ends the heartbeat before the store goes, on every way out.
class Connected {
 public:
  Connected(health::Health& health, store::Store& store, const RankEnv& env) : health_(health) {
    health.Connect(store, env.rank, env.world_size);
  }
  ~Connected() { health_.Disconnect(); }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;

 private:
  health::Health& health_;
};

int CodeOf(const std::exception& failure) {
  const auto* error = dynamic_cast<const Error*>(&failure);
  return static_cast<int>(error != nullptr ? error->code() : ExitCode::kSoftware);
}

int CodeOf(train::End end) {
  switch (end) {
    case train::End::kFinished:
      return static_cast<int>(ExitCode::kOk);
    case train::End::kStoppedWithCheckpoint:
      return static_cast<int>(ExitCode::kTempFail);
    case train::End::kStoppedWithout:
      break;
  }
  Log(Level::kWarning, "stopped without a checkpoint: the work of this attempt is lost");
  return kSignalExitBase + SIGTERM;
}

// What becomes of a rank whose training thread is stuck: the others hear of it, and it ends, as the
// thread can't.
health::Watchdog Watch(const train::RunContext& run, const Groups& groups,
                       train::StopSignals& signals) {
  const auto limit = [](int seconds) {
    return health::Watchdog::StuckAfter(std::chrono::seconds(seconds));
  };
  const train::DistributedConfig& config = run.config.distributed;
  return {run.board,
          {.step = limit(config.timeout_seconds),
           .evaluation = limit(config.evaluation_timeout_seconds),
           .checkpoint = limit(config.checkpoint_timeout_seconds)},
          [&groups, &signals](const std::string& what) {
            // First: the stuck thread may hold what the next call waits for.
            signals.EndWithin(kStuckEndsWithin, static_cast<int>(ExitCode::kSoftware));
            for (comm::ProcessGroup* group : groups.all()) {
              group->Abort(what);
            }
          }};
}

int TrainConnected(const train::RunContext& run, const Groups& groups, train::StopSignals& signals,
                   const health::Health& health) {
  // Outside of the try block: the others must hear of a failure before a save that runs has ended.
  std::unique_ptr<train::Trainer> trainer;
  try {
    trainer = std::make_unique<train::Trainer>(run);
    signals.Arm(std::chrono::seconds(run.config.train.stop_seconds));
    const health::Watchdog watchdog = Watch(run, groups, signals);
    const int code = CodeOf(trainer->Run());
    signals.EndWithin(kLeaveWithin, code);
    for (comm::ProcessGroup* group : groups.all()) {
      group->Shutdown(kShutdownTimeout);
    }
    return code;
  } catch (const std::exception& e) {
    signals.EndWithin(kLeaveWithin, CodeOf(e));
    health.TellWhereabouts();
    for (comm::ProcessGroup* group : groups.all()) {
      group->Abort(e.what());
    }
    if (trainer != nullptr) {
      trainer->Abandon(e.what());
    }
    throw;
  }
}

}  // namespace

int TrainCommand(const TrainArguments& arguments, const EnvReader& read,
                 train::StopSignals& signals) {
  const RankEnv env = ReadRankEnv(read);
  SetLogRank(env.rank, env.world_size);
  const train::Config config = ReadConfig(arguments, read);
  const int threads = ThreadCount(config, env, read);
  at::set_num_threads(threads);
  at::globalContext().setDeterministicAlgorithms(config.train.deterministic, /*warn_only=*/false);
  // On by default with the above: fills every new tensor, to find reads of what nobody wrote.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  Log(Level::kInfo, "starting version={} attempt={} threads={} model={} optimizer={}", DDP_VERSION,
      env.attempt, threads, config.model.name, config.optimizer.name);

  const at::Device device = train::ChooseDevice(config.train.device, env.local_rank);
  if (config.train.precision == "float16" && device.is_cpu()) {
    Log(Level::kWarning,
        "train.precision is float16 on a CPU, where that is several times slower than float32: "
        "use float32, or bfloat16, unless this is a test");
  }
  const data::Datasets datasets = ReadDatasets(config);
  const auto folder = PrepareFolder(config, env);
  train::Board board;
  health::Health health(
      board, env.progress_port && *env.progress_port > 0 ? *env.progress_port + env.local_rank : 0);
  store::Rendezvous rendezvous(
      env, {.init_timeout = std::chrono::seconds(config.distributed.init_timeout_seconds),
            .shutdown_timeout = kShutdownTimeout});
  const Groups groups = ConnectAll(config, env, rendezvous.store(), device);
  board.SetTransport(std::string(groups.device().transport()));
  const Connected connected(health, rendezvous.store(), env);
  const int code = TrainConnected({.config = config,
                                   .data = datasets,
                                   .folder = folder.get(),
                                   .group = *groups.host,
                                   .device_group = groups.device(),
                                   .norm_group = groups.norm.get(),
                                   .store = rendezvous.store(),
                                   .signals = signals,
                                   .board = board,
                                   .device = device},
                                  groups, signals, health);
  health.Disconnect();
  rendezvous.Shutdown();
  return code;
}

}  // namespace ddp::rt
