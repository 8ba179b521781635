// Real ddp-worker processes (or other programs) for tests: started with an environment, watched
// line by line, always reaped. Small data sets and configs that train in milliseconds.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddp::rt {

using Environment = std::map<std::string, std::string>;

// How long anything in these tests may take: far above what it does, below ctest's bound.
inline constexpr std::chrono::seconds kPatience(60);

class Worker {
 public:
  Worker(const std::vector<std::string>& arguments, const Environment& environment);
  // Another program, by its path.
  static std::unique_ptr<Worker> Of(std::vector<std::string> command,
                                    const Environment& environment);
  // Kills it if it still runs.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Waits until standard error has this text; false if the process ended without.
  bool WaitFor(const std::string& text);
  // The same on standard output.
  bool WaitForResult(const std::string& text);
  // Waits for the end: the exit code, or 128 + signal. Past the limit: -1, and the process is
  // killed.
  int Wait(std::chrono::milliseconds limit = kPatience);

  // What it has written so far; all of it after Wait.
  std::string log() const;      // standard error
  std::string results() const;  // standard output

 private:
  struct Stream {
    int fd = -1;
    std::string text;
    bool ended = false;
    std::thread reader;
  };
  Worker() = default;
  void Start(std::vector<std::string> command, const Environment& environment);
  void Read(Stream& stream);
  bool WaitFor(const Stream& stream, const std::string& text);

  pid_t pid_ = -1;
  int exit_code_ = -1;
  bool reaped_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Stream out_;
  Stream err_;
};

// Pixels and labels of a deterministic pattern: `train` and `t10k` files of so many 28×28 images.
void WriteDigits(const std::filesystem::path& folder, int train, int test);

int FreePort();

// One job of so many ranks on this host, in folders of its own below `root`: `data/digits` and
// `checkpoints`.
class Job {
 public:
  // `config` is YAML; the ranks read it from a variable.
  Job(std::filesystem::path root, int ranks, std::string config, Environment more = {});

  // Starts all ranks anew.
  void Start();
  Worker& rank(int number) { return *workers_.at(static_cast<size_t>(number)); }
  // Exit codes in the order of ranks.
  std::vector<int> Wait(std::chrono::milliseconds limit = kPatience);
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  // All ranks' logs, for failure messages.
  std::string logs() const;

 private:
  std::filesystem::path root_;
  int ranks_;
  std::string config_;
  Environment more_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// The answer to a GET on this host, headers included; "" if nobody answers.
std::string HttpGet(int port, const std::string& path);

// The port of /metrics and /progress that a rank has logged.
int ProgressPort(const std::string& log);

// The hashes that a rank logged with train.logHashes: step to hash.
std::map<int, std::string> Hashes(const std::string& log);

}  // namespace ddp::rt
