// Saves checkpoints on its own thread: Start copies what is to be saved and returns, so training
// goes on while files are written and synced, by a thread that gives way to those that compute. A
// second Start waits for the first. Start and Finish are called by one thread.
//
// A save that fails (a full disk, say) need not end the run: it is told, and the next Start tries
// again. Finish, after which nothing tries again, does so itself, once (but not in shards, where
// the other ranks are done), and throws if it fails.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/snapshot.h"

namespace ddp::rt::checkpoint {

struct SaverOptions {
  // Called on the saving thread after each complete checkpoint; in shards: of rank 0 only.
  std::function<void(const std::filesystem::path&, const Position&, std::chrono::duration<double>)>
      saved = nullptr;
  // Called on the saving thread after each that failed, with the reason.
  std::function<void(const std::string&)> failed = nullptr;
  // Whether a failure is thrown by the next Start, too.
  bool failures_end_the_run = false;
  // How long a checkpoint may take, before waiting for it fails.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  // Not null: in shards, and every rank has a Saver. Outlives it.
  ShardExchange* shards = nullptr;
};

class Saver {
 public:
  // The folder is prepared and outlives this object.
  Saver(CheckpointFolder& folder, SaverOptions options);
  // Waits for the save that runs.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Gets the memory for contents of this size ready meanwhile; without it the first Start does.
  void Reserve(const Contents& contents);
  void Start(const Contents& contents);
  // Whether what was started last is still being saved, after at most this long. Error(kSoftware)
  // if it is past its time.
  bool BusyAfter(std::chrono::milliseconds time);
  // Returns when what was started last is saved.
  void Finish();

 private:
  void Wait();
  Error TooLate() const;
  void Begin(bool save);
  void Copy(const Contents& contents);
  void Run();
  void SaveOnce();

  CheckpointFolder& folder_;
  SaverOptions options_;
  Snapshot memory_;  // the elements of `copy_`
  size_t reserve_ = 0;
  Contents copy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  std::chrono::steady_clock::time_point begun_;
  bool save_ = false;  // while busy: save, or merely get memory
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace ddp::rt::checkpoint
