// Saves checkpoints on its own thread: Start copies what is to be saved and returns, so training
// goes on while files are written and synced. A second Start waits for the first. A failure is
// thrown by the next Start or Finish. Start and Finish are called by one thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/checkpoint/folder.h"

namespace ddp::rt::checkpoint {

struct SaverOptions {
  // Called on the saving thread after each complete checkpoint.
  std::function<void(const std::filesystem::path&, const Position&, std::chrono::duration<double>)>
      saved;
  // How long a checkpoint may take, before waiting for it fails.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

class Saver {
 public:
  // The folder is prepared and outlives this object.
  Saver(CheckpointFolder& folder, SaverOptions options);
  // Waits for the save that runs.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  void Start(const Contents& contents);
  // Returns when nothing is being saved.
  void Finish();

 private:
  void Copy(const Contents& contents);
  void Run();

  CheckpointFolder& folder_;
  SaverOptions options_;
  std::vector<std::byte> memory_;  // the elements of `copy_`; kept, so that its pages stay mapped
  Contents copy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace ddp::rt::checkpoint
