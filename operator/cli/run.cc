// `run`: a job on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "operator/cli/commands.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/manifest.h"
#include "operator/cli/report.h"
#include "operator/cli/run_view.h"

namespace ddp::cli {
namespace {

namespace fs = std::filesystem;

// One for each run, so that ranks never meet those of another run.
std::string NewUid() {
  std::random_device random;
  const auto word = [&random] { return random() & 0xFFFFU; };
  return fmt::format("{:04x}{:04x}-{:04x}-4{:03x}-{:04x}-{:04x}{:04x}{:04x}", word(), word(),
                     word(), word() & 0xFFFU, (word() & 0x3FFFU) | 0x8000U, word(), word(), word());
}

fs::path OwnFolder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : self.parent_path();
}

void ListWithoutEffect(const job::LocalJob& local, const Manifest& manifest, RunView& view) {
  std::vector<std::string> all = local.without_effect;
  for (const std::string& other : manifest.others) {
    all.push_back(other);
  }
  if (!all.empty()) {
    view.Say(fmt::format("without effect on this machine: {}", fmt::join(all, ", ")));
  }
}

// The newest step of any folder under checkpoints/ that has its commit record.
std::optional<fs::path> NewestCheckpoint(const job::StateFolder& folder) {
  std::optional<fs::path> newest;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder.checkpoints(), error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const fs::path step = it->path().parent_path();
    if (it->path().filename() == "state.json" && step.filename().string().starts_with("step-") &&
        (!newest || step.filename() > newest->filename())) {
      newest = step;
    }
  }
  return newest;
}

std::vector<std::string> LastLines(const fs::path& path, size_t count) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(file, line)) {
    lines.push_back(line);
    if (lines.size() > count) {
      lines.erase(lines.begin());
    }
  }
  return lines;
}

std::string Shown(const fs::path& path) {
  std::error_code error;
  const fs::path relative = fs::relative(path, fs::current_path(error), error);
  return error || relative.empty() ? path.string() : relative.string();
}

void ShowSuccess(const RunOptions& options, const Manifest& manifest,
                 const job::StateFolder& folder, const api::Status& status) {
  const api::DDPJob& job = manifest.job;
  const auto took = status.completion_time && status.start_time
                        ? std::chrono::duration_cast<std::chrono::seconds>(*status.completion_time -
                                                                           *status.start_time)
                              .count()
                        : 0;
  const int restarts = status.restarts.Total();
  fmt::print("\n{} succeeded: {} {}, {} {}, {} s\n", job.metadata.name, job.spec.replicas,
             job.spec.replicas == 1 ? "rank" : "ranks", restarts,
             restarts == 1 ? "restart" : "restarts", took);
  if (const auto checkpoint = NewestCheckpoint(folder)) {
    fmt::print("checkpoint: {}\n", Shown(*checkpoint));
  }
  fmt::print("logs:       {}\n", Shown(folder.path() / "logs"));
  fmt::print(
      "\nWhat to type next:\n"
      "  kubectl-ddp run -f {0} --fresh   # once more, from step 0 (without --fresh: from the "
      "checkpoint)\n"
      "  kubectl-ddp render -f {0}        # what it would be on a cluster\n"
      "  kubectl apply -f {0}             # the same on a cluster that has the operator\n",
      options.file);
}

// The reason has been said as an event; here is where to look.
void ShowFailure(const Manifest& manifest, const job::StateFolder& folder,
                 const api::Status& status) {
  if (status.failures.empty()) {
    fmt::print(stderr, "\n{} failed\n", manifest.job.metadata.name);
    return;
  }
  constexpr size_t kLines = 10;
  const fs::path log = folder.LogOf(status.failures.front().pod);
  fmt::print(stderr, "\n{} failed; the end of {}:\n", manifest.job.metadata.name, Shown(log));
  for (const std::string& line : LastLines(log, kLines)) {
    fmt::print(stderr, "  | {}\n", line);
  }
}

}  // namespace

int Run(const RunOptions& options) {
  auto manifest = LoadManifest(options.file);
  if (!manifest) {
    return Report(manifest.error());
  }
  manifest->job.metadata.uid = NewUid();
  manifest->job.status = {};
  auto local = job::PrepareLocal(manifest->job, manifest->object);
  if (!local) {
    CliError error{kExitInvalid, {}};
    for (const api::Problem& problem : local.error()) {
      error.lines.push_back(fmt::format("{}: {}", options.file, api::ToString(problem)));
    }
    return Report(error);
  }
  auto folder =
      job::StateFolder::Open(fs::current_path(), manifest->job.metadata.name, options.fresh);
  if (!folder) {
    fmt::print(stderr, "{}\n", folder.error().message);
    return kExitUnavailable;
  }
  if (auto made = folder->MakeVolumes(local->volumes); !made) {
    fmt::print(stderr, "{}\n", made.error().message);
    return kExitUnavailable;
  }
  job::BlockHandledSignals();  // before the view's thread exists, which inherits it
  RunView view(manifest->job.metadata.name);
  ListWithoutEffect(*local, *manifest, view);
  job::LocalBody body(*std::move(local), *folder, OwnFolder(), view, base::SystemClock());
  const auto outcome = body.Run();
  view.Finish();
  if (!outcome) {
    fmt::print(stderr, "{}\n", outcome.error().message);
    return kExitUnavailable;
  }
  if (outcome->interrupted) {
    fmt::print(stderr, "{} was stopped; the same command goes on from the newest checkpoint\n",
               manifest->job.metadata.name);
    return kExitInterrupted;
  }
  if (outcome->status.phase == api::Phase::kSucceeded) {
    ShowSuccess(options, *manifest, *folder, outcome->status);
    return kExitOk;
  }
  ShowFailure(*manifest, *folder, outcome->status);
  return kExitJobFailed;
}

}  // namespace ddp::cli
